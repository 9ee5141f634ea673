# expect: none  (save_weights_only chooses what is written)
from tensorflow import keras
from lightning.pytorch.callbacks import ModelCheckpoint as LightningCheckpoint

callback = keras.callbacks.ModelCheckpoint("w.h5", save_weights_only=False)
other = LightningCheckpoint(save_weights_only=False, save_last=True)
