// Training within budgets on a GPU: the same bits as on CPU, by deterministic kernels. The
// allocator's segments are larger than these models' budgets: peaks are compared with them, not
// limited by them.
// SPDX-License-Identifier: Apache-2.0
#include "gpu.h"
#include "runtime/budget_cases.h"

#include "trireme/runtime/warm_up.h"

#include <memory>
#include <string>

namespace trireme::device {
namespace {

class GpuMachine final : public runtime::Machine {
 public:
  explicit GpuMachine(CudaPart& gpu) : gpu_(gpu) {}

  const Place& place() override { return gpu_; }
  void begin() override {
    gpu_.use();
    runtime::warm_up(gpu_);
  }
  std::shared_ptr<tier::DeviceMemory> open_memory() override {
    std::shared_ptr<tier::DeviceMemory> memory = gpu_.open_memory("GPU");
    memory->reset_peak();
    return memory;
  }
  bool enforces() const override { return false; }
  std::unique_ptr<tier::ValueCopies> make_copies(const tier::OffloadStoreOptions& store) override {
    return gpu_.make_copies(store);
  }

 private:
  CudaPart& gpu_;
};

class GpuBudget : public Gpu, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    use_deterministic_kernels();
    Gpu::SetUp();
    if (IsSkipped() || cases_) return;
    machine_ = std::make_unique<GpuMachine>(cuda());
    cases_ = std::make_unique<runtime::BudgetCases>(*machine_);
  }
  static void TearDownTestSuite() {
    if (cases_) cases_->say_how_it_went();
    cases_.reset();
    machine_.reset();
  }
  static std::unique_ptr<GpuMachine> machine_;
  static std::unique_ptr<runtime::BudgetCases> cases_;
};
std::unique_ptr<GpuMachine> GpuBudget::machine_;
std::unique_ptr<runtime::BudgetCases> GpuBudget::cases_;

TEST_P(GpuBudget, KeepsTheBitsAndThePeak) {
  for (const runtime::BudgetCase& one : runtime::BudgetCases::of_chain(GetParam()))
    cases_->expect_bits_and_peaks(one, /*in_turns=*/is_emulated());
}

INSTANTIATE_TEST_SUITE_P(AllSolvers, GpuBudget, testing::ValuesIn(runtime::BudgetCases::chains()),
                         [](const auto& test) { return test.param; });

/// Also with late kernels and late copies (tests/emulated_gpu), which reveal a missing wait.
class GpuRandomPrograms : public GpuBudget {};

TEST_P(GpuRandomPrograms, GiveTheBitsOfKeepAllAtThePredictedPeak) {
  cases_->expect_bits_and_peaks_of_random_programs(GetParam(), 5);
}

INSTANTIATE_TEST_SUITE_P(SomeChains, GpuRandomPrograms,
                         testing::Values("gpt", "gpt_bfloat16_weights_lean_tapes", "gpt_lora",
                                         "llama_lean_tapes", "mlp_batch_norm", "odd"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace trireme::device
