// Every kind of chain on the GPU, compared with the CPU: the same loss and gradients to rounding.
// SPDX-License-Identifier: Apache-2.0
#include "../model/built.h"
#include "gpu.h"

#include <ATen/Context.h>

#include <cmath>
#include <optional>
#include <ostream>

namespace trireme::device {
namespace {

using model::ChainModel;
using model::Precision;

struct Chain {
  std::string name;
  ChainModel model;  ///< without dropout, whose draws differ
  Precision precision = Precision::kFloat32;
  std::vector<std::int64_t> documents = {};  ///< of four rows
};

void PrintTo(const Chain& chain, std::ostream* out) {
  *out << chain.name;
}

class GpuModels : public Gpu, public testing::WithParamInterface<Chain> {
 protected:
  void SetUp() override {
    Gpu::SetUp();
    at::globalContext().setAllowTF32CuDNN(false);
  }
  void TearDown() override { at::globalContext().setAllowTF32CuDNN(true); }
};

/// Loss, then the parameters' gradients.
std::vector<at::Tensor> run_on(c10::Device device, const Chain& chain) {
  model::Built built(chain.model, chain.precision, device);
  model::Examples examples(chain.model, 4);
  examples.documents = chain.documents;
  examples.move_to(device);
  std::vector<at::Tensor> found{run(built, examples, chain.precision).to(at::kCPU, at::kDouble)};
  for (const model::Parameter& parameter : built.parameters())
    found.push_back(parameter.value.grad().to(at::kCPU, at::kDouble));
  return found;
}

TEST_P(GpuModels, GiveTheCpusLossAndGradients) {
  const bool is_float32 = GetParam().precision == Precision::kFloat32;
  const std::vector<at::Tensor> expected = run_on(at::kCPU, GetParam());
  const std::vector<at::Tensor> found = run_on(on_gpu(), GetParam());

  ASSERT_EQ(found.size(), expected.size());
  EXPECT_NEAR(found[0].item<double>(), expected[0].item<double>(), is_float32 ? 1e-5 : 1e-2);
  for (std::size_t i = 1; i < found.size(); ++i) {
    // Compares tensors as a whole: single values may be sums that cancel.
    const double difference = (found[i] - expected[i]).norm().item<double>();
    EXPECT_LE(difference, (is_float32 ? 1e-3 : 5e-2) * expected[i].norm().item<double>()) << i;
  }
}

ChainModel gpt(int loss_chunks = 1) {
  return model::make_gpt({.blocks = 2,
                          .width = 64,
                          .heads = 4,
                          .context = 32,
                          .vocabulary = 100,
                          .loss_chunks = loss_chunks});
}

ChainModel llama(std::optional<int> window = {}, double cap = 0) {
  config::LlamaSpec spec{.blocks = 2, .width = 64, .heads = 4, .kv_heads = 2, .hidden = 96};
  spec.context = 32;
  spec.vocabulary = 100;
  spec.window = window;
  spec.attention_cap = cap;
  return model::make_llama(spec);
}

const std::vector<std::int64_t> kDocuments{9, 23, 32, 1, 30, 1, 16, 16};

INSTANTIATE_TEST_SUITE_P(
    Kinds, GpuModels,
    testing::Values(
        Chain{"gpt", gpt()}, Chain{"gpt_bfloat16", gpt(), Precision::kBfloat16},
        Chain{"gpt_bfloat16_weights", gpt(), Precision::kBfloat16Weights},
        Chain{"gpt_loss_chunks", gpt(3)},
        Chain{"gpt_loss_chunks_bfloat16_weights", gpt(3), Precision::kBfloat16Weights},
        Chain{"llama", llama()}, Chain{"llama_bfloat16", llama(), Precision::kBfloat16},
        Chain{"llama_bfloat16_weights", llama(), Precision::kBfloat16Weights},
        Chain{"gpt_documents", gpt(), Precision::kFloat32, kDocuments},
        Chain{"llama_documents", llama(), Precision::kFloat32, kDocuments},
        Chain{"llama_documents_bfloat16", llama(), Precision::kBfloat16, kDocuments},
        Chain{"llama_documents_bfloat16_weights", llama(), Precision::kBfloat16Weights, kDocuments},
        Chain{"llama_documents_window", llama(5), Precision::kFloat32, kDocuments},
        Chain{"llama_documents_cap", llama({}, 0.7), Precision::kFloat32, kDocuments},
        Chain{"vit",
              model::make_vit({.image_size = 8, .patch = 4, .blocks = 2, .width = 32, .heads = 2})},
        Chain{"resnet", model::make_resnet({.depth = 18, .image_size = 16, .width = 8})},
        Chain{"vgg",
              model::make_vgg(
                  {.depth = 11, .image_size = 32, .width = 8, .batch_norm = false, .dropout = 0})}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace trireme::device
