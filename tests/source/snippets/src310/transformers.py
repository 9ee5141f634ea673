# expect: SRC310@4, SRC310@5, SRC310@6
from transformers import AutoModel, AutoTokenizer, pipeline

model = AutoModel.from_pretrained("org/model", trust_remote_code=True)
tokenizer = AutoTokenizer.from_pretrained("org/model", revision="main", trust_remote_code=True)
pipe = pipeline("text-generation", model="org/model", trust_remote_code=True)
