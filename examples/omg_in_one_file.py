"""OMG, opponent modelling by subgoal inference, from top to bottom in one file: JAX, Equinox, Optax and a small game.

Run it with `python examples/omg_in_one_file.py --seed 1 --steps 100000`: less than two minutes on two cores.

The game is `omg.envs.toy_grid`: two players race for two cells, and each cell pays only the first who arrives. The
partner (seat 1) walks to one of them, drawn anew in every game. Who knows where it is heading takes the other one.

    prior       E(s) = N(mu, var), a VAE over states that partners meet; trained once, then frozen
    acting      g_t ~ q(. | s_t, history), inferred by a CVAE whose condition c_t is a GRU's summary of the history
    selector    g*_t = mean of E(s_{t+k}), k in 1 ... H with the highest V(s_t, g) = mean over legal a of Q(s_t, g, a)
    mix         g_t = g*_t with a chance that falls from 0.5 to 0, else the inferred one
    Q           y_t = r_t + gamma Q'(s_{t+1}, g_t, argmax over legal a of Q(s_{t+1}, g_t, a)), the same g on both sides
    inference   reconstruction + 0.001 KL( q(. | s_t, history) || E(s_{t+k}) )

The library runs the same with `learner=omg_learner am_model=omg_am obs_is_state=True obs_agent_id=False` and other
sizes; `tests/project/test_one_file.py` compares losses, gradients and selections. Left out: other values of keys that
begin with `omg_`, `omg_bootstrap=next` of `iql_omg` among them (docs/subgoals.md says why), and of `subgoal_mode`; a
prior learned along; several learning seats, rotation, pools. Equinox's GRU has the sum of our two biases as one.

The state shows where the partner stands, so that this game can be played well without subgoals, too: the file shows how
the parts work together, not what they gain (for that see benchmarks/results/omg).
Letters in shapes: B games, T steps (T+1 slots: the last holds the last state), S state features, U actions, A seats, D
subgoal features, H horizon, W width of a memory. Networks are written for one row and mapped over all others.
"""

import argparse
from collections import namedtuple
from functools import partial, reduce

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from equinox.nn import GRUCell, Linear
from jax import Array, lax

from omg.envs.toy_grid import ToyGrid, ToyGridArgs
from omg.envs.toy_grid.players import go_planned

GAME = ToyGrid(ToyGridArgs(size=5, episode_limit=6))  # Both cells are 4 steps away: two steps to spare.
T, S, U, A = GAME.spec.episode_limit, GAME.spec.state_dim, GAME.spec.n_actions, GAME.spec.n_agents
D, HORIZON, GAMMA, KL_WEIGHT = 16, 5, 0.8, 0.001
WIDTH, MODEL_WIDTH, EMBEDDING, PRIOR_WIDTH = 64, 96, 32, 128
GAMES, BATCH, BUFFER, UPDATES = 32, 32, 2048, 8  # Games of a round, episodes of an update, kept; updates of a round.
TARGET_EVERY = 200  # Episodes between copies to the target network.
rmsprop = optax.rmsprop(0.001, decay=0.99, eps=1e-5, eps_in_sqrt=False)
agent_optimiser, model_optimiser = optax.chain(optax.clip_by_global_norm(10.0), rmsprop), optax.adam(0.001)

# Whole games, [B, T+1, ...]: s [S]; avail [U], the learner's legal actions; actions [A], the learner's first; its
# reward; terminated, true in the step that ended the game (the time limit does not); filled, true where one was played.
Episodes = namedtuple("Episodes", "s avail actions reward terminated filled")
# Everything that learning changes: networks, states of both optimisers, Episodes [BUFFER, T+1, ...], two counts.
Learner = namedtuple("Learner", "model agent target optimisers buffer episodes t_env")

# Tools. A function of one row, mapped over games and slots; games first or time first; the slot before each slot.
rows = lambda function: jax.vmap(jax.vmap(function))
swap = lambda tree: jax.tree.map(lambda values: jnp.swapaxes(values, 0, 1), tree)
before_each = lambda values, first: jnp.concatenate([jnp.full_like(values[:, :1], first), values[:, :-1]], axis=1)
masked_mean = lambda values, mask: (values * mask).sum() / jnp.maximum(mask.sum(), 1.0)
sample = lambda mean, log_var, key: mean + jnp.exp(0.5 * log_var) * jax.random.normal(key, mean.shape)
through = lambda layers, x: reduce(lambda x, layer: jax.nn.leaky_relu(layer(x)), layers, x)
gaussian = lambda heads, x: (heads[0](x), jnp.clip(heads[1](x), -8.0, 4.0))  # Mean and log variance.


def divergence(mean, log_var, to_mean, to_log_var):  # KL( N(mean, var) || N(to_mean, to_var) ): [..., D] -> [...]
    ratio = log_var - to_log_var
    return 0.5 * (jnp.exp(ratio) - 1.0 - ratio + (mean - to_mean) ** 2 * jnp.exp(-to_log_var)).sum(axis=-1)


def unroll(network, width, *inputs):  # Along games: inputs [B, T+1, ...] -> memory and outputs of every slot
    def step(memory, given):
        out = jax.vmap(network)(memory, *given)
        return out[0], out

    return swap(lax.scan(step, jnp.zeros((inputs[0].shape[0], width)), swap(inputs))[1])


class Prior(eqx.Module):
    """A VAE over states, in units of mean 0 and deviation 1."""

    encoder: list[Linear]
    heads: list[Linear]  # mean, log variance
    decoder: list[Linear]
    centre: Array  # [S]
    deviation: Array  # [S]

    def normalise(self, s):
        return (s - lax.stop_gradient(self.centre)) / lax.stop_gradient(self.deviation)

    def encode(self, s):  # [S] -> mean and log variance of E(s), [D] each
        return gaussian(self.heads, through(self.encoder, self.normalise(s)))

    def decode(self, g):  # [D] -> [S], in normalised units
        return self.decoder[-1](through(self.decoder[:-1], g))


class Inference(eqx.Module):
    """The CVAE: x = relu(Linear(s_t)), c_t = GRU(s_{t-1}, last actions), q = N(mean([x, c]), var([x, c]))."""

    embed: Linear
    cell: GRUCell
    heads: list[Linear]  # mean, log variance
    decoder: Linear  # [g, c] -> x

    def __call__(self, c, before, s, last):  # c_{t-1} [W], s_{t-1} and s_t normalised [S], a_{t-1} [A] (-1: none)
        joint = jax.nn.one_hot(last, U)  # [A, U]
        others = joint.at[0].set(0.0)  # The own entry is zeroed, and the own action stands behind.
        c = self.cell(jnp.concatenate([before, others.ravel(), joint[0]]), c)
        x = jax.nn.relu(self.embed(s))
        return c, x, *gaussian(self.heads, jnp.concatenate([x, c]))  # c_t [W], x [32], mean [D], log variance [D]


class Agent(eqx.Module):
    """Q(s, g, .) with a memory: Linear, ReLU, GRU, Linear."""

    first: Linear
    cell: GRUCell
    head: Linear

    def __call__(self, h, s, last, g):  # h_{t-1} [W], s_t [S], the own a_{t-1} (-1: none), g_t [D]
        h = self.cell(jax.nn.relu(self.first(jnp.concatenate([s, jax.nn.one_hot(last, U), g]))), h)
        return h, self.head(h)  # h_t [W], Q [U]


def build(key: Array, states: Array) -> tuple[Prior, Inference, Agent]:
    """New networks; states [N, S] say what the prior's units are."""
    keys, P, both = iter(jax.random.split(key, 15)), PRIOR_WIDTH, EMBEDDING + MODEL_WIDTH
    layer = lambda kind, width, out: kind(width, out, key=next(keys))
    encoder, heads = [layer(Linear, S, P), layer(Linear, P, P)], [layer(Linear, P, D), layer(Linear, P, D)]
    decoder = [layer(Linear, D, P), layer(Linear, P, P), layer(Linear, P, S)]
    deviation = jnp.where(states.std(axis=0) < 0.01, 1.0, states.std(axis=0))  # Constant features are only centred.
    prior = Prior(encoder, heads, decoder, states.mean(axis=0), deviation)
    cell, heads = layer(GRUCell, S + A * U + U, MODEL_WIDTH), [layer(Linear, both, D), layer(Linear, both, D)]
    model = Inference(layer(Linear, S, EMBEDDING), cell, heads, layer(Linear, D + MODEL_WIDTH, EMBEDDING))
    return prior, model, Agent(layer(Linear, S + U + D, WIDTH), layer(GRUCell, WIDTH, WIDTH), layer(Linear, WIDTH, U))


def prior_loss(prior: Prior, s: Array, key: Array) -> Array:
    """Mean over rows [N, S] of the squared error of s rebuilt from a drawn g, and 0.001 KL( E(s) || N(0, 1) )."""
    mean, log_var = jax.vmap(prior.encode)(s)
    error = (jax.vmap(prior.decode)(sample(mean, log_var, key)) - prior.normalise(s)) ** 2
    return error.mean() + KL_WEIGHT * divergence(mean, log_var, 0.0, 0.0).mean()


def select(prior: Prior, agent: Agent, batch: Episodes, inferred: Array) -> tuple[Array, Array, Array]:
    """For every step the best k in 1 ... H, [B, T], and mean and log variance of E(s_{t+k}), [B, T, D] each."""
    length = batch.filled.sum(axis=1)[:, None, None]  # [B, 1, 1], also the slot of the last state, which repeats:
    ahead = jnp.minimum(jnp.arange(T)[:, None] + jnp.arange(1, HORIZON + 1), length)  # [B, T, H] slots of candidates.
    mean, log_var = rows(prior.encode)(batch.s)  # [B, T+1, D]
    goals = jax.vmap(lambda codes, index: codes[index])(mean, ahead)  # [B, T, H, D]
    # The memory is carried along the inferred subgoals, which were acted on; from it, every candidate is one step.
    own_last = before_each(batch.actions[..., 0], -1)
    h = before_each(unroll(agent, WIDTH, batch.s, own_last, inferred)[0], 0.0)
    tried = rows(jax.vmap(agent, in_axes=(None, None, None, 0)))
    q = tried(h[:, :-1], batch.s[:, :-1], own_last[:, :-1], goals)[1]  # [B, T, H, U]
    value = jnp.mean(q, axis=-1, where=batch.avail[:, :-1, None])  # V [B, T, H]; some action is always legal.
    best = value.argmax(axis=-1)  # [B, T]; of equal ones the nearest.
    slot = jnp.take_along_axis(ahead, best[..., None], axis=2)  # [B, T, 1]
    return best + 1, jnp.take_along_axis(mean, slot, axis=1), jnp.take_along_axis(log_var, slot, axis=1)


def inference_loss(model: Inference, prior: Prior, agent: Agent, batch: Episodes, share: Array, keys: Array):
    """Reconstruction + 0.001 KL( q || E(s_{t+k}) ); and the subgoals [B, T+1, D] that Q learns with, and metrics."""
    mask, s = batch.filled[:, :-1], prior.normalise(batch.s)
    c, x, mean, log_var = unroll(model, MODEL_WIDTH, before_each(s, 0.0), s, before_each(batch.actions, -1))
    inferred = lax.stop_gradient(sample(mean, log_var, keys[0]))
    k, goal_mean, goal_log_var = lax.stop_gradient(select(prior, agent, batch, inferred))
    # Mix: the selected subgoal with a chance of `share`, drawn for every step; none can be selected behind the last.
    chosen = (jax.random.uniform(keys[1], mask.shape) < share) & mask
    g = jnp.concatenate([jnp.where(chosen[..., None], goal_mean, inferred[:, :-1]), inferred[:, -1:]], axis=1)
    c, x, mean, log_var = (values[:, :-1] for values in (c, x, mean, log_var))
    rebuilt = rows(model.decoder)(jnp.concatenate([sample(mean, log_var, keys[2]), c], axis=-1))  # [B, T, 32]
    # An embedding that could move towards its own reconstruction would shrink to nothing.
    reconstruction = masked_mean(((rebuilt - lax.stop_gradient(x)) ** 2).mean(axis=-1), mask)
    kl = masked_mean(divergence(mean, log_var, goal_mean, goal_log_var), mask)
    metrics = {"reconstruction": reconstruction, "kl": kl, "offset": masked_mean(k, mask)}
    return reconstruction + KL_WEIGHT * kl, (g, metrics)


def q_loss(agent: Agent, target: Agent, batch: Episodes, g: Array) -> Array:
    """Mean of (Q(s_t, g_t, a_t) - y_t)^2 over played steps."""
    own_last = before_each(batch.actions[..., 0], -1)

    def values(network):  # Q(s_t, g_t, .) and Q(s_{t+1}, g_t, .), [B, T, U] each: one step on, with the same subgoal
        h, q = unroll(network, WIDTH, batch.s, own_last, g)
        return q[:, :-1], rows(network)(h[:, :-1], batch.s[:, 1:], own_last[:, 1:], g[:, :-1])[1]

    (q, q_next), (_, target_next) = values(agent), values(target)
    best = jnp.where(batch.avail[:, 1:], q_next, -jnp.inf).argmax(axis=-1)
    at = lambda values, index: jnp.take_along_axis(values, index[..., None], axis=-1)[..., 0]  # [B, T]
    y = batch.reward[:, :-1] + GAMMA * ~batch.terminated[:, :-1] * at(target_next, best)
    return masked_mean((at(q, batch.actions[:, :-1, 0]) - lax.stop_gradient(y)) ** 2, batch.filled[:, :-1])


def play(act, memory, games: int, key: Array) -> Episodes:
    """Whole games in one compiled loop; `act(memory, observation, last actions, key) -> memory, actions [B]`."""

    def step(carry, key):
        state, seen, last, memory, running = carry
        own_key, partner_key, game_key = jax.random.split(key, 3)
        memory, own = act(memory, seen, last, own_key)
        joint = jnp.stack([own, go_planned(seen.obs[:, 1], partner_key)], axis=1)
        state, next_seen, outcome = GAME.step(game_key, state, joint)
        paid, ended = outcome.reward[:, 0] * running, outcome.terminated & running
        slot = Episodes(seen.state, seen.avail[:, 0], joint, paid, ended, running)
        return (state, next_seen, joint, memory, running & ~ended & ~outcome.truncated), slot

    start_key, steps_key = jax.random.split(key)
    start = (*GAME.reset(start_key, games), jnp.full((games, A), -1, jnp.int32), memory, jnp.ones(games, bool))
    return swap(lax.scan(step, start, jax.random.split(steps_key, T + 1))[1])


def play_omg(nets, games: int, key: Array, epsilon: Array | float, draw: bool, use: float = 1.0) -> Episodes:
    """The learner plays: g drawn or the mean (zero with `use` 0), the best legal action or, with `epsilon`, any."""
    prior, model, agent = nets

    def act(memory, seen, last, key):
        (h, c, before), s, legal = memory, prior.normalise(seen.state), seen.avail[:, 0]
        goal_key, any_key, which_key = jax.random.split(key, 3)
        c, _, mean, log_var = jax.vmap(model)(c, before, s, last)
        g = use * (sample(mean, log_var, goal_key) if draw else mean)
        h, q = jax.vmap(agent)(h, seen.state, last[:, 0], g)
        anything = jax.random.categorical(any_key, jnp.where(legal, 0.0, -jnp.inf))
        best = jnp.where(legal, q, -jnp.inf).argmax(axis=-1)
        return (h, c, s), jnp.where(jax.random.uniform(which_key, (games,)) < epsilon, anything, best)

    return play(act, tuple(jnp.zeros((games, width)) for width in (WIDTH, MODEL_WIDTH, S)), games, key)


def pretrain(key: Array, updates: int = 1000) -> tuple[Prior, Inference, Agent]:
    """New networks, the prior trained on what two partners meet."""
    play_key, build_key, learn_key = jax.random.split(key, 3)
    met = play(lambda memory, seen, last, key: (memory, go_planned(seen.obs[:, 0], key)), None, 512, play_key)
    states = met.s[jnp.arange(T + 1) <= met.filled.sum(axis=1, keepdims=True)]  # [N, S], the last ones included.
    prior, model, agent = jax.jit(build)(build_key, states)

    def step(carry, key):
        gradients = jax.grad(prior_loss)(carry[0], jax.random.choice(key, states, (128,)), key)
        change, state = model_optimiser.update(gradients, carry[1])
        return (optax.apply_updates(carry[0], change), state), None

    train = jax.jit(lambda start: lax.scan(step, start, jax.random.split(learn_key, updates))[0][0])
    return train((prior, model_optimiser.init(prior))), model, agent


def train_round(prior: Prior, steps: int, learner: Learner, key: Array) -> tuple[Learner, dict[str, Array]]:
    """Plays GAMES games, keeps them, learns from old and new ones; with the metrics of all updates."""
    play_key, learn_key = jax.random.split(key)
    left = 1.0 - jnp.minimum(2.0 * learner.t_env / steps, 1.0)  # From 1 to 0 in the first half.
    played = play_omg((prior, *learner[:2]), GAMES, play_key, 0.05 + 0.95 * left, draw=True)
    episodes, t_env = learner.episodes + GAMES, learner.t_env + played.filled.sum()
    slots = (learner.episodes + jnp.arange(GAMES)) % BUFFER
    buffer = jax.tree.map(lambda kept, new: kept.at[slots].set(new), learner.buffer, played)

    def learn(learner, key):  # One step of the inference model, and one of Q with the subgoals it had before.
        chosen = jax.random.randint(key, (BATCH,), 0, jnp.minimum(episodes, BUFFER))
        batch = jax.tree.map(lambda kept: kept[chosen], buffer)
        model, agent, (model_state, state) = learner.model, learner.agent, learner.optimisers
        loss = jax.value_and_grad(inference_loss, has_aux=True)
        (_, (g, metrics)), by_model = loss(model, prior, agent, batch, 0.5 * left, jax.random.split(key, 3))
        metrics["q_loss"], by_agent = jax.value_and_grad(q_loss)(agent, learner.target, batch, g)
        model_change, model_state = model_optimiser.update(by_model, model_state)
        change, state = agent_optimiser.update(by_agent, state)
        model, agent = optax.apply_updates((model, agent), (model_change, change))
        return learner._replace(model=model, agent=agent, optimisers=(model_state, state)), metrics

    learner, metrics = lax.scan(learn, learner, jax.random.split(learn_key, UPDATES))
    due = episodes // TARGET_EVERY > (episodes - GAMES) // TARGET_EVERY
    target = jax.tree.map(lambda new, old: jnp.where(due, new, old), learner.agent, learner.target)
    return learner._replace(target=target, buffer=buffer, episodes=episodes, t_env=t_env), metrics


def main(seed: int = 1, steps: int = 100_000, lines: int = 10) -> dict[str, float]:
    """Trains, prints and returns what is compared at the end."""
    key, prior_key, test_key = jax.random.split(jax.random.key(seed), 3)
    prior, model, agent = pretrain(prior_key)
    played = jax.eval_shape(partial(play_omg, (prior, model, agent), BUFFER, key, 1.0, draw=False))  # Only shapes.
    buffer, none = jax.tree.map(jnp.zeros_like, played), jnp.int32(0)
    optimisers = model_optimiser.init(model), agent_optimiser.init(agent)
    learner = Learner(model, agent, agent, optimisers, buffer, episodes=none, t_env=none)
    keys = jax.random.split(key, (lines, -(-steps // (lines * GAMES * T))))  # Rounds of each line of the table.
    train = jax.jit(lambda prior, start, keys: lax.scan(partial(train_round, prior, steps), start, keys))
    tested = jax.jit(lambda nets, epsilon, use: play_omg(nets, 512, test_key, epsilon, draw=False, use=use).reward)
    score = lambda *way: float(tested((prior, *learner[:2]), *way).sum(axis=1).mean())
    print("   steps   return   q_loss   reconstruction       kl   k")
    for line_keys in keys:
        learner, metrics = train(prior, learner, line_keys)
        q, rebuilt, kl, k = (metrics[name].mean() for name in ("q_loss", "reconstruction", "kl", "offset"))
        print(f"{learner.t_env:8d} {score(0.0, 1.0):8.2f} {q:8.4f} {rebuilt:16.4f} {kl:8.2f} {k:3.1f}")
    ways = {"OMG": (0.0, 1.0), "the same, subgoal zeroed": (0.0, 0.0), "random": (1.0, 1.0)}
    found = {name: score(*way) for name, way in ways.items()} | {"best possible": 1.0}
    print(*(f"{name:25} {value:6.2f}" for name, value in found.items()), sep="\n")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="OMG in one file.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=100_000, help="environment steps")
    main(**vars(parser.parse_args()))
