# expect: SRC301@6
import torch.utils.model_zoo as model_zoo


def pretrained(model):
    model.load_state_dict(model_zoo.load_url("https://example.org/vgg.pth"))
    return model
