# expect: none  (env.step is no optimizer)
def play(env, policy, episodes):
    for _ in range(episodes):
        state, reward = env.step(policy.act())
        loss = policy.loss(state, reward)
        loss.backward()
        policy.update()
