# expect: none  (the way out that keeps the protection)
import torch
from models import Config

with torch.serialization.safe_globals([Config]):
    state = torch.load("model.pt", weights_only=True)
