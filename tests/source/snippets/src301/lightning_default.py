# expect: none  (a local file goes by torch's own default; save_checkpoint's argument chooses what is written)
import lightning as L
from models import Classifier

model = Classifier.load_from_checkpoint("last.ckpt")
trainer = L.Trainer()
trainer.test(model)
trainer.save_checkpoint("weights.ckpt", weights_only=False)
