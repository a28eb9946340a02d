// The peer of the throughput benchmark: the same GPT as Trireme's, trained by a plain LibTorch loop
// of the kind that people write by hand: torch::nn modules, one autograd graph per micro-batch,
// torch::optim::AdamW, clip_grad_norm_.
//
//     plain_loop BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH STEPS THREADS
//
// Prints the median seconds of a step.
// SPDX-License-Identifier: Apache-2.0
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace {

struct Shape {
  std::int64_t blocks, width, heads, context, vocabulary, batch, micro_batch, steps;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Shape& shape) : heads(shape.heads) {
    const std::int64_t C = shape.width;
    norm1 = register_module("norm1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({C})));
    norm2 = register_module("norm2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({C})));
    qkv = register_module("qkv", torch::nn::Linear(C, 3 * C));
    projection = register_module("projection", torch::nn::Linear(C, C));
    up = register_module("up", torch::nn::Linear(C, 4 * C));
    down = register_module("down", torch::nn::Linear(4 * C, C));
  }
  torch::Tensor forward(torch::Tensor x) {
    const std::int64_t B = x.size(0), T = x.size(1), C = x.size(2);
    const auto parts = qkv->forward(norm1->forward(x))
                           .view({B, T, 3, heads, C / heads})
                           .permute({2, 0, 3, 1, 4})
                           .unbind(0);
    const auto attended =
        at::scaled_dot_product_attention(parts[0], parts[1], parts[2], {}, 0.0, true);
    x = x + projection->forward(attended.transpose(1, 2).reshape({B, T, C}));
    return x + down->forward(at::gelu(up->forward(norm2->forward(x)), "tanh"));
  }
  std::int64_t heads;
  torch::nn::LayerNorm norm1{nullptr}, norm2{nullptr};
  torch::nn::Linear qkv{nullptr}, projection{nullptr}, up{nullptr}, down{nullptr};
};
TORCH_MODULE(Block);

struct Gpt : torch::nn::Module {
  explicit Gpt(const Shape& shape) {
    token = register_module("token", torch::nn::Embedding(shape.vocabulary, shape.width));
    position = register_module("position", torch::nn::Embedding(shape.context, shape.width));
    for (std::int64_t b = 0; b < shape.blocks; ++b)
      blocks.push_back(register_module("block" + std::to_string(b), Block(shape)));
    norm =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})));
  }
  torch::Tensor forward(const torch::Tensor& tokens, const torch::Tensor& target) {
    auto x = token->forward(tokens) + position->weight.narrow(0, 0, tokens.size(1));
    for (auto& block : blocks) x = block->forward(x);
    const auto logits = at::linear(norm->forward(x), token->weight);
    return at::cross_entropy_loss(logits.view({-1, token->weight.size(0)}), target.reshape({-1}));
  }
  torch::nn::Embedding token{nullptr}, position{nullptr};
  std::vector<Block> blocks;
  torch::nn::LayerNorm norm{nullptr};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 10) {
    std::cerr
        << "plain_loop BLOCKS WIDTH HEADS CONTEXT VOCABULARY BATCH MICRO_BATCH STEPS THREADS\n";
    return 2;
  }
  const auto number = [&](int i) { return std::atoll(argv[i]); };
  const Shape shape{number(1), number(2), number(3), number(4),
                    number(5), number(6), number(7), number(8)};
  at::set_num_threads(static_cast<int>(number(9)));
  Gpt model(shape);
  torch::optim::AdamW optimizer(model.parameters(),
                                torch::optim::AdamWOptions(1e-3).weight_decay(0.1));
  const std::int64_t micro_batches = shape.batch / shape.micro_batch;
  std::vector<double> seconds;
  for (std::int64_t step = 0; step < shape.steps; ++step) {
    const auto tokens =
        torch::randint(shape.vocabulary, {shape.batch, shape.context + 1}, torch::kLong);
    const auto begin = std::chrono::steady_clock::now();
    optimizer.zero_grad();
    double sum = 0;
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      const auto part = tokens.narrow(0, m * shape.micro_batch, shape.micro_batch);
      const auto loss = model.forward(part.narrow(1, 0, shape.context).contiguous(),
                                      part.narrow(1, 1, shape.context));
      (loss / static_cast<double>(micro_batches)).backward();
      sum += loss.item<float>();
    }
    torch::nn::utils::clip_grad_norm_(model.parameters(), 1.0);
    optimizer.step();
    seconds.push_back(
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    if (!std::isfinite(sum)) return 1;
  }
  std::nth_element(seconds.begin(),
                   seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  std::cout << seconds[seconds.size() / 2] << "\n";
}
