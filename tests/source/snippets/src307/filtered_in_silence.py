# expect: SRC307@5
def warm_start(model, pretrained):
    own = model.state_dict()
    kept = {k: v for k, v in pretrained.items() if k in own and v.shape == own[k].shape}
    model.load_state_dict(kept, strict=False)
