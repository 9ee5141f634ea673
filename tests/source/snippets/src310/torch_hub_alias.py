# expect: SRC310@4, SRC310@5
from torch import hub

dino = hub.load("facebookresearch/dino:main", "dino_vits16")
names = hub.list("facebookresearch/dino")
