# expect: none
class Trainer:
    def begin(self, epoch):
        self.loader.sampler.set_epoch(epoch)
