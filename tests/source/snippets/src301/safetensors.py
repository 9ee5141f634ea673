# expect: none  (safetensors runs nothing)
from safetensors.torch import load_file, load_model
from safetensors import safe_open

state = load_file("model.safetensors")
with safe_open("model.safetensors", framework="pt") as file:
    names = file.keys()
