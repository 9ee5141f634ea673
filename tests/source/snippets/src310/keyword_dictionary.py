# expect: SRC310@5
from transformers import AutoConfig

options = {"trust_remote_code": True, "cache_dir": "cache"}
config = AutoConfig.from_pretrained("org/model", **options)
