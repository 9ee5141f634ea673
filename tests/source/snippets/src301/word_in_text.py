# expect: none  (text, no call)
"""Call torch.load(path, weights_only=False) only for files of your own."""

HELP = "torch.load(path, weights_only=False)"


def explain():
    # torch.load(path, weights_only=False) would run what the file says
    print(HELP)
