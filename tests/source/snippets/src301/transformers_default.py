# expect: none  (safe by default)
from transformers import AutoModelForCausalLM, AutoTokenizer

model = AutoModelForCausalLM.from_pretrained("org/model", use_safetensors=True)
other = AutoModelForCausalLM.from_pretrained("org/model", weights_only=True)
tokenizer = AutoTokenizer.from_pretrained("org/model")
