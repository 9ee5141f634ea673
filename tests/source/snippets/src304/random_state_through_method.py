# expect: SRC304@10
import numpy
import torch.utils.data as data


class Noisy(data.Dataset):
    def __init__(self, signal):
        super().__init__()
        self.signal = signal
        self.state = numpy.random.RandomState(7)

    def __getitem__(self, i):
        return self._augment(self.signal[i])

    def _augment(self, x):
        return x + self.state.normal(size=x.shape)


def build(signal, workers):
    return data.DataLoader(Noisy(signal), num_workers=workers)
