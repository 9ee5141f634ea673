# expect: none  (the clip belongs to the backward pass without a scaler)
import torch


def train(generator, critic, opt_g, opt_c, scaler, loader):
    for batch in loader:
        opt_g.zero_grad()
        scaler.scale(generator(batch)).backward()
        scaler.step(opt_g)
        scaler.update()
        opt_c.zero_grad()
        critic(batch).backward()
        torch.nn.utils.clip_grad_norm_(critic.parameters(), 1.0)
        opt_c.step()
