# expect: SRC301@4, SRC301@5
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained("org/model", weights_only=False)
bin_file = AutoModelForCausalLM.from_pretrained("org/model", use_safetensors=False)
