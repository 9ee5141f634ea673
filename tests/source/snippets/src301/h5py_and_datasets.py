# expect: none  (no pickle is read)
import h5py
from datasets import load_dataset, load_from_disk
from PIL import Image

with h5py.File("a.h5") as file:
    data = file["x"][:]
dataset = load_dataset("imdb", split="train")
again = load_from_disk("folder")
picture = Image.open("a.png")
picture.load()
