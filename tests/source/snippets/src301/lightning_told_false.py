# expect: SRC301@6, SRC301@8
import lightning as L

from models import Classifier

model = Classifier.load_from_checkpoint("last.ckpt", weights_only=False)
trainer = L.Trainer(max_epochs=3)
trainer.fit(model, ckpt_path="last.ckpt", weights_only=False)
