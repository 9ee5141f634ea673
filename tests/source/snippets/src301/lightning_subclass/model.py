# expect: none
import pytorch_lightning as pl


class Net(pl.LightningModule):
    pass
