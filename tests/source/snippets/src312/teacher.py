# expect: none  (the teacher's output carries no gradient)
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def distill(student, teacher, loader, optimizer):
    student = DDP(student)
    teacher = DDP(teacher)
    for x in loader:
        with torch.no_grad():
            wanted = teacher.module(x)
        optimizer.zero_grad()
        loss = F.mse_loss(student(x), wanted)
        loss.backward()
        optimizer.step()
