// Text generation on the GPU, compared with the CPU's.
// SPDX-License-Identifier: Apache-2.0
#include "../runtime/small_runs.h"
#include "gpu.h"

#include "trireme/runtime/weights.h"

#include <ATen/CPUGeneratorImpl.h>

namespace trireme::device {
namespace {

using runtime::GrowingText;
using runtime::LanguageModel;

config::LlamaSpec small_llama() {
  config::LlamaSpec spec;
  spec.blocks = 2;
  spec.width = 32;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.context = 24;
  spec.vocabulary = 40;
  return spec;
}

class GpuGrowingText : public Gpu {};

TEST_F(GpuGrowingText, GoesOnAsOnTheCpu) {
  config::LlamaSpec windowed = small_llama();
  windowed.window = 5;
  windowed.window_blocks = {1};
  for (const config::ModelSpec& spec :
       std::vector<config::ModelSpec>{runtime::small_gpt(), small_llama(), windowed}) {
    const support::TemporaryFolder folder;
    const runtime::Trained trained = runtime::train_and_export(runtime::small_job(spec), folder);
    const model::ChainModel chain = model::make_model(spec);
    const LanguageModel here = LanguageModel::of_checkpoint(chain, trained.checkpoint);
    LanguageModel there = LanguageModel::of_checkpoint(chain, trained.checkpoint);
    there.move_to(on_gpu());
    GrowingText text(here, 40), text_there(there, 40);
    std::vector<std::int64_t> tokens{1, 2, 3, 4, 5, 6, 7};
    at::Generator unused = at::detail::createCPUGenerator(1);
    while (tokens.size() < 40) {  // beyond the context, too
      const at::Tensor logits = text.next(tokens), logits_there = text_there.next(tokens);
      ASSERT_TRUE(logits_there.is_cpu());
      ASSERT_LT((logits - logits_there).abs().max().item<double>(), 1e-4) << tokens.size();
      tokens.push_back(runtime::draw(logits, {.temperature = 0}, unused));
    }
  }
}

}  // namespace
}  // namespace trireme::device
