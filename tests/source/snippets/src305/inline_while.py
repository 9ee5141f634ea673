# expect: SRC305@9
from torch.utils.data import DataLoader, DistributedSampler
from tqdm import tqdm


def run(model, opt, data, total):
    loader = DataLoader(data, sampler=DistributedSampler(data, drop_last=True))
    step = 0
    while step < total:
        for batch in tqdm(loader):
            opt.zero_grad()
            model(batch).backward()
            opt.step()
            step += 1
