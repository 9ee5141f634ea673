# expect: none  (code of one reviewed commit, which cannot change)
from transformers import AutoModel

model = AutoModel.from_pretrained(
    "org/model",
    trust_remote_code=True,
    revision="3f0b7a7d9c8e5a1b2c3d4e5f60718293a4b5c6d7",
)
