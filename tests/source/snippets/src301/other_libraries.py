# expect: none  (none of these is torch's load)
import json
import tomllib

import dotenv
import librosa
import numpy as np
import spacy
import tensorflow as tf
import yaml

settings = json.load(open("a.json"))
more = yaml.safe_load(open("a.yaml"))
array = np.load("a.npy")
nlp = spacy.load("en_core_web_sm")
wave, rate = librosa.load("a.wav")
model = tf.saved_model.load("folder")
net = tf.keras.models.load_model("net.keras")
with open("a.toml", "rb") as file:
    table = tomllib.load(file)
dotenv.load_dotenv()
