# expect: none  (Lightning clears by itself)
import lightning as L
import torch


class Module(L.LightningModule):
    def training_step(self, batch, index):
        return self.net(batch).mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())
