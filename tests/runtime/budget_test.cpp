// Whatever a plan recomputes or moves: the same bits as without it, within the enforced budget, and
// with the peak that was predicted.
// SPDX-License-Identifier: Apache-2.0
#include "budgeted.h"

#include "trireme/core/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <map>
#include <memory>

namespace trireme::runtime {
namespace {

/// A chain with what the shipped models lack: tuples, a member that is handed through, an integer
/// member, operators that work in place, state that is no tensor, an output that is a view.
class Odd : public model::Layer {
 public:
  Odd(int place, const model::Seeds& seeds) : place_(place) {
    weight_ =
        add_parameter("weight", at::empty({kWidth, kWidth}).normal_(0, 0.1, seeds.of_layer()));
    bias_ = add_parameter("bias", at::zeros({kWidth}));
    calls_ = add_buffer("calls", at::zeros({1}));
  }
  model::Values forward(const model::Values& input, const model::Context& context) override {
    const at::Tensor& x = input[0];
    if (context.training) calls_.add_(1);
    at::Tensor h = at::linear(x, weight_, bias_).relu_();
    h = (h * (1 + 0.5 * at::rand(h.sizes(), context.generator))).add_(0.01);
    const at::Tensor length = input.size() > 2 ? input[2] : at::full({1}, place_, at::kLong);
    const at::Tensor both = at::cat({h, x}, 1);
    const at::Tensor first = both.narrow(1, 0, kWidth);
    if (input.size() < 2) return {first, x, length};
    return {first + length.to(at::kFloat), input[1], length};
  }
  static constexpr std::int64_t kWidth = 48;

 private:
  int place_;
  at::Tensor weight_, bias_, calls_;
};

class OddLoss : public model::Layer {
 public:
  explicit OddLoss(const model::Seeds& seeds) {
    weight_ =
        add_parameter("weight", at::empty({10, Odd::kWidth}).normal_(0, 0.1, seeds.of_layer()));
  }
  model::Values forward(const model::Values& input, const model::Context& context) override {
    return {at::cross_entropy_loss(at::linear(input[0] + input[1], weight_), context.target[0])};
  }

 private:
  at::Tensor weight_;
};

model::ChainModel odd_model() {
  model::ChainModel model{.name = "odd", .layers = {}, .input = model::InputKind::kVectors};
  model.input_size = Odd::kWidth;
  model.classes = 10;
  for (int i = 1; i <= 5; ++i) {
    model.layers.push_back({.name = concat("odd", i), .work = 1, .build = [i](const auto& seeds) {
                              return std::make_unique<Odd>(i, seeds);
                            }});
  }
  model.layers.push_back({.name = "loss", .work = 1, .build = [](const auto& seeds) {
                            return std::make_unique<OddLoss>(seeds);
                          }});
  return model;
}

struct Chain {
  std::string name;
  std::function<std::unique_ptr<Subject>()> make;
};

std::unique_ptr<Subject> subject_of(const config::ModelSpec& spec, int micro_batch,
                                    const std::string& precision = "float32") {
  config::JobSpec job = small_job(spec);
  job.train.micro_batch = micro_batch;
  job.train.batch = 2 * micro_batch;
  job.train.precision = precision;
  return std::make_unique<Subject>(model::make_model(spec), job);
}

std::vector<Chain> chains() {
  const config::GptSpec gpt{.blocks = 3,
                            .width = 64,
                            .heads = 2,
                            .context = 32,
                            .vocabulary = 50,
                            .dropout = 0.1,
                            .tied_head = true};
  const config::MlpSpec mlp{.inputs = 60,
                            .widths = {200, 100, 300, 200, 150, 200},
                            .classes = 10,
                            .batch_norm = true,
                            .dropout = 0.1};
  config::GptSpec fine = gpt;
  fine.grain = "fine";
  const config::LlamaSpec llama{
      .blocks = 3, .width = 64, .heads = 4, .kv_heads = 2, .context = 32, .vocabulary = 50};
  const config::ResnetSpec resnet{
      .depth = 18, .image_size = 16, .channels = 3, .classes = 10, .width = 8};
  const config::VggSpec vgg{.depth = 11, .image_size = 32, .width = 4, .batch_norm = true};
  const config::VitSpec vit{
      .image_size = 16, .patch = 4, .blocks = 2, .width = 48, .heads = 3, .dropout = 0.1};
  return {{"gpt", [gpt] { return subject_of(gpt, 2); }},
          {"gpt_fine", [fine] { return subject_of(fine, 2); }},
          {"llama", [llama] { return subject_of(llama, 2); }},
          {"resnet", [resnet] { return subject_of(resnet, 4); }},
          {"vgg", [vgg] { return subject_of(vgg, 4); }},
          {"vit", [vit] { return subject_of(vit, 4); }},
          {"gpt_bfloat16", [gpt] { return subject_of(gpt, 2, "bfloat16"); }},
          {"mlp_batch_norm", [mlp] { return subject_of(mlp, 64); }},
          {"odd", [] {
             config::JobSpec job = small_job(config::MlpSpec{});
             job.train.micro_batch = 32;
             job.train.batch = 96;
             return std::make_unique<Subject>(odd_model(), job);
           }}};
}

/// Of measuring and planning there is one per chain.
Subject& subject_named(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Subject>> subjects;
  std::unique_ptr<Subject>& subject = subjects[name];
  if (subject) return *subject;
  for (const Chain& chain : chains()) {
    if (chain.name == name) subject = chain.make();
  }
  return *subject;
}

std::vector<std::string> chain_names() {
  std::vector<std::string> names;
  for (const Chain& chain : chains()) names.push_back(chain.name);
  return names;
}

void expect_equal(const std::vector<at::Tensor>& expected, const std::vector<at::Tensor>& found,
                  const std::string& what) {
  ASSERT_EQ(expected.size(), found.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(expected[i], found[i])) << what << " " << i;
}

/// All runs, for the last line.
struct Record {
  int runs = 0, good = 0;
  double worst_share = 0;
  Bytes worst_difference;
  std::string worst_name = "none";
};

class Budget : public testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  static void note(const std::string& name, Bytes predicted, Bytes measured) {
    ++record_.runs;
    record_.good += HasFailure() ? 0 : 1;
    const Bytes difference = predicted > measured ? predicted - measured : measured - predicted;
    if (difference / measured <= record_.worst_share) return;
    record_.worst_share = difference / measured;
    record_.worst_difference = difference;
    record_.worst_name = name;
  }
  static void TearDownTestSuite() {
    std::cout << record_.good << " of " << record_.runs
              << " planned runs have keep_all's bits and keep their budget; worst prediction of a "
                 "peak "
              << 100 * record_.worst_share << " % off (" << record_.worst_difference.count()
              << " B), " << record_.worst_name << "\n";
  }

 private:
  static Record record_;
};
Record Budget::record_;

/// Of what lies between the least budget that works and that of keep_all.
constexpr std::array kShares{0.0, 0.2, 0.5, 0.8, 1.0};

TEST_P(Budget, KeepsTheBitsAndThePeak) {
  const auto& [chain, solver] = GetParam();
  Subject& subject = subject_named(chain);
  const Bytes most = subject.keep_all_budget();
  const Bytes least = subject.least_budget(solver).value_or(most);
  for (const double share : kShares) {
    const Bytes budget =
        least +
        Bytes(static_cast<std::int64_t>(share * static_cast<double>((most - least).count())));
    const std::string name = concat(chain, ", ", solver, " at ", to_text(budget));
    SCOPED_TRACE(name);
    const auto plan = subject.plan(solver, budget);
    ASSERT_TRUE(plan) << "no plan at the budget that was said to be enough";

    const PlannedRun run = subject.run(*plan, budget, {.host = Bytes(16 << 20), .disk = Bytes(0)});

    EXPECT_EQ(run.numbers.losses, subject.expected().losses);
    expect_equal(subject.expected().gradients, run.numbers.gradients, "gradient");
    expect_equal(subject.expected().parameters, run.numbers.parameters, "parameter");
    expect_equal(subject.expected().buffers, run.numbers.buffers, "buffer");
    EXPECT_LE(run.peak, budget);
    const Bytes margin = std::max(Bytes(1 << 20), run.peak / 50);
    EXPECT_LE(run.predicted_peak, run.peak + margin);
    EXPECT_GE(run.predicted_peak, run.peak - margin);
    note(name, run.predicted_peak, run.peak);
  }
}

INSTANTIATE_TEST_SUITE_P(AllSolvers, Budget,
                         testing::Combine(testing::ValuesIn(chain_names()),
                                          testing::Values("keep_all", "recompute_all", "periodic 2",
                                                          "sqrt", "revolve", "min_peak", "rotor",
                                                          "rotor_free", "capuchin", "offload",
                                                          "pofo")),
                         [](const auto& test) {
                           std::string name =
                               concat(std::get<0>(test.param), "_", std::get<1>(test.param));
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name;
                         });

}  // namespace
}  // namespace trireme::runtime
