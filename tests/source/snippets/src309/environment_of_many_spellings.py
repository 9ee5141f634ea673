# expect: SRC309@6, SRC309@7, SRC309@8, SRC309@9, SRC309@10, SRC309@12, SRC309@14
import os
from os import environ
from unittest import mock

os.environ["TORCH_FORCE_NO_" + "WEIGHTS_ONLY_LOAD"] = "1"
environ.update(TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="true")
os.environ |= {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "y"}
os.putenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
env = dict(os.environ, TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD="1")
NAME = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"
environ.setdefault(NAME, str(1))
with mock.patch.dict(os.environ, {"OTHER": "1"}):
    os.environb[b"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] = b"1"
