# expect: SRC305@14
import torch
import torch.utils.data as tud


def main(args, model, dataset, optimizer):
    if args.distributed:
        train_sampler = tud.distributed.DistributedSampler(dataset)
    else:
        train_sampler = None
    train_loader = tud.DataLoader(
        dataset, shuffle=(train_sampler is None), sampler=train_sampler, num_workers=4
    )
    for epoch in range(args.start_epoch, args.epochs):
        train(train_loader, model, optimizer, epoch)


def train(train_loader, model, optimizer, epoch):
    for i, (x, y) in enumerate(train_loader):
        loss = model(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
