# expect: SRC310@11
from transformers import AutoModel


def load(name, local):
    options = {}
    if local:
        options["local_files_only"] = True
    else:
        options["revision"] = "main"
    return AutoModel.from_pretrained(name, trust_remote_code=True, **options)
