# expect: none
def prepare(scaler, optimizer):
    scaler.unscale_(optimizer)
