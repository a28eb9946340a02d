"""Single layers, run in every way of the runtime, against plain PyTorch: to the last bit."""

import gc
import weakref

import pytest
import torch
from gpt_of_modules import STYLES, Block, Head
from torch import nn
from trireme_probe import Probe

import trireme

SEED = 11


pytestmark = pytest.mark.usefixtures("one_thread")


def plain(module, x, gradient):
    """Output, gradient of the input and of the parameters, by PyTorch alone."""
    torch.manual_seed(SEED)
    leaf = x.clone().requires_grad_()
    output = module(leaf)
    output.backward(gradient)
    gradients = [leaf.grad, *(parameter.grad.clone() for parameter in module.parameters())]
    module.zero_grad(set_to_none=True)
    return [output.detach(), *gradients]


def same(found, expected):
    return len(found) == len(expected) and all(torch.equal(one, other) for one, other in zip(found, expected))


def block_and_values(style):
    torch.manual_seed(0)
    return Block(32, 4, 0.1, style), torch.randn(3, 16, 32), torch.randn(3, 16, 32)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("way", ["taped", "moving", "retaped", "split"])
def test_gives_output_and_gradients_of_plain_pytorch(style, way):
    module, x, gradient = block_and_values(style)
    expected = plain(module, x, gradient)
    module = block_and_values(style)[0]  # with buffers as they were
    layer = Probe(module)
    if way == "retaped":
        output = layer.retaped([x], SEED, [])
    else:
        output = layer.taped([x], SEED, [], way == "moving")
    assert same([*output, *layer.backward([gradient], way == "split")], expected)


@pytest.mark.parametrize("style", STYLES)
def test_gives_the_output_of_plain_pytorch_without_a_tape(style):
    module, x, gradient = block_and_values(style)
    expected = plain(module, x, gradient)[:1]
    assert same(Probe(block_and_values(style)[0]).untaped([x], SEED, [], True), expected)


def test_is_in_evaluation_mode_outside_of_training():
    module, x, _ = block_and_values("plain")
    layer = Probe(module)
    output = layer.untaped([x], SEED, [], False)
    assert not module.training
    assert same(output, [module(x).detach()])


def test_the_last_layer_is_given_the_target():
    torch.manual_seed(0)
    module, x, target = Head(16, 8), torch.randn(2, 4, 8), torch.randint(16, (2, 4))
    expected = module(x, target)
    assert same(Probe(module, is_last=True).untaped([x], SEED, [target], True), [expected.detach()])


@pytest.mark.parametrize("way", ["taped", "retaped"])
def test_a_loss_over_masked_targets_is_its_share_of_a_step(way):
    """Its last operations are no Python's, where a retape ends, too."""
    torch.manual_seed(0)
    module, x, target = Head(16, 8), torch.randn(2, 4, 8), torch.randint(16, (2, 4))
    target[0, 1:] = -100
    weight, gradient = torch.tensor(0.125), torch.tensor(1.0)
    leaf = x.clone().requires_grad_()
    loss = module(leaf, target) * (torch.tensor(5.0) * weight)
    loss.backward()
    expected = [leaf.grad, *(parameter.grad.clone() for parameter in module.parameters())]
    module.zero_grad(set_to_none=True)
    layer = Probe(module, is_last=True)
    output = layer.retaped([x], SEED, [target, weight]) if way == "retaped" else layer.taped([x], SEED, [target, weight], False)
    assert same([*output, *layer.backward([gradient], False)], [loss.detach(), *expected])


def test_checkpoints_in_a_layer_keep_less():
    layers = {style: Probe(block_and_values(style)[0]) for style in ("plain", "checkpoint", "reentrant")}
    x = block_and_values("plain")[1]
    for layer in layers.values():
        layer.taped([x], SEED, [], True)
    assert layers["checkpoint"].storages() < layers["plain"].storages()
    assert layers["reentrant"].storages() < layers["plain"].storages()


def test_parameters_stay_parameters():
    module = block_and_values("plain")[0]
    Probe(module)
    assert all(isinstance(parameter, nn.Parameter) for parameter in module.parameters())
    assert len(list(module.named_parameters())) == len(list(block_and_values("plain")[0].named_parameters()))


def test_a_modules_own_tensors_are_taken_over_and_those_of_others_copied():
    own, shared = nn.Linear(4, 4), nn.Linear(4, 4)
    places = [parameter.data_ptr() for parameter in own.parameters()]
    weight = shared.weight
    assert [parameter.data_ptr() for parameter in Probe(own).parameters()] == places
    copied, _ = Probe(shared).parameters()
    assert torch.equal(copied, weight) and copied.data_ptr() != weight.data_ptr()


def test_a_buffer_that_forward_assigns_is_remembered():
    module, x, _ = block_and_values("norm")
    layer = Probe(module)
    for _ in range(3):
        layer.taped([x], SEED, [], False)
    assert module.calls == 3
    assert set(layer.buffers()) >= {"calls", "batch_norm.running_mean", "batch_norm.num_batches_tracked"}


def test_frozen_parameters_have_no_gradient():
    module, x, gradient = block_and_values("plain")
    module.qkv.weight.requires_grad_(False)
    layer = Probe(module)
    layer.taped([x], SEED, [], False)
    assert len(layer.backward([gradient], False)) == 1 + len(list(module.parameters())) - 1
    assert module.qkv.weight.grad is None


class Held(nn.Module):
    """Remembers what its frames saw when a retape ended it."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.seen = []

    def forward(self, x):
        try:
            with torch.enable_grad():
                y = self.linear(self.linear(x).exp().exp()) + 1
            self.seen.append("end")
            return y
        except Exception as error:  # an early end is none
            self.seen.append(error)
            raise
        finally:
            self.seen.append("finally")


def test_a_retape_passes_the_frames_of_python():
    torch.manual_seed(0)
    module = Held()
    x, gradient = torch.randn(2, 4), torch.randn(2, 4)
    expected = plain(module, x, gradient)
    module.seen.clear()
    layer = Probe(module)
    layer.retaped([x], SEED, [])
    assert module.seen == ["end", "finally", "finally"]
    assert same(layer.backward([gradient], False), expected[1:])


def test_a_layer_is_freed():
    module = nn.Linear(4, 4)
    alive = weakref.ref(module)
    layer = Probe(module)
    layer.taped([torch.randn(2, 4)], SEED, [], False)
    layer.backward([torch.randn(2, 4)], False)
    del module, layer
    gc.collect()
    assert alive() is None


def refusal(make, *, run=True, x=None):
    with pytest.raises(trireme.InputError) as caught:
        layer = Probe(make())
        if run:
            layer.taped([torch.randn(2, 4) if x is None else x], SEED, [], False)
    return str(caught.value)


class Gives(nn.Module):
    def __init__(self, give):
        super().__init__()
        self.linear, self.give = nn.Linear(4, 4), give

    def forward(self, x):
        return self.give(self, self.linear(x))


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda self, y: 3, "forward gave a int, must give a tensor or a tuple of tensors"),
        (lambda self, y: {"y": y}, "forward gave a dict, must give"),
        (lambda self, y: (y, "y"), "forward gave a tuple with a str, must give tensors alone"),
        (lambda self, y: y.detach(), "through which no gradient flows"),
        (lambda self, y: torch.view_as_complex(y.view(4, 2, 1, 2)[..., 0, :]), "real numbers"),
        (lambda self, y: setattr(self.linear, "weight", nn.Parameter(torch.zeros(4, 4))) or y, "assigns to linear.weight"),
    ],
)
def test_refuses_an_output_that_is_none(give, words):
    assert words in refusal(lambda: Gives(give))


def with_post_accumulate_hook():
    module = nn.Linear(4, 4)
    module.weight.register_post_accumulate_grad_hook(lambda parameter: None)
    return module


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (with_post_accumulate_hook, "parameter weight has a hook that register_post_accumulate_grad_hook set"),
        (lambda: nn.Linear(4, 4, device="meta"), "parameter weight is on meta, must be on the CPU"),
        (lambda: nn.Linear(4, 4, dtype=torch.float64), "parameter weight is trained and torch.float64"),
        (lambda: nn.LazyLinear(4), "parameter weight has no size yet"),
    ],
)
def test_refuses_what_a_layer_cannot_have(make, words):
    assert words in refusal(make, run=False)


def test_refuses_hooks_for_saved_tensors_around_it():
    layer = Probe(nn.Linear(4, 4))
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        with pytest.raises(trireme.InputError, match="saved_tensors_hooks"):
            layer.taped([torch.randn(2, 4)], SEED, [], False)


def test_names_the_line_of_an_error():
    def fail(self, y):
        raise ValueError("no such thing")

    words = refusal(lambda: Gives(fail))
    assert words.startswith("ValueError: no such thing\n")
    assert "test_layers.py:" in words and 'raise ValueError("no such thing")' in words


class FailsBackwards(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise KeyError("no gradient")


def hooked(self, y):
    def fail(gradient):
        raise KeyError("no gradient")

    if y.requires_grad:
        y.register_hook(fail)
    return y


@pytest.mark.parametrize("give", [hooked, lambda self, y: FailsBackwards.apply(y)])
def test_an_error_in_a_backward_is_told_and_leaves_nothing(give):
    layer = Probe(Gives(give))
    layer.taped([torch.randn(2, 4)], SEED, [], False)
    with pytest.raises(trireme.InputError, match="KeyError: 'no gradient'"):
        layer.backward([torch.ones(2, 4)], False)
    assert int("3") == 3  # no error of the interpreter is left


def test_a_parameter_changed_in_place_is_told():
    words = refusal(lambda: Gives(lambda self, y: y + self.linear.bias.add_(1)))
    assert "a leaf Variable that requires grad" in words and "write the result to a new tensor (x = x + 1, not x += 1)" in words


def test_a_value_changed_in_place_is_told():
    layer = Probe(Gives(lambda self, y: y.exp().mul_(2)))
    layer.taped([torch.randn(2, 4)], SEED, [], False)
    with pytest.raises(trireme.InputError, match="changes it in place afterwards"):
        layer.backward([torch.ones(2, 4)], False)
