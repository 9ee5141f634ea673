# expect: SRC308@6
import torch
import torchvision

resnet = torchvision.models.resnet18(num_classes=10)
torch.save(resnet, "resnet.pt")
