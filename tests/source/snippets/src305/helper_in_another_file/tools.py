# expect: none
def begin_epoch(loader, epoch):
    loader.sampler.set_epoch(epoch)
