// SPDX-License-Identifier: Apache-2.0
#include "budget_cases.h"

#include "scripts.h"
#include "simulate/random_programs.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"
#include "trireme/schedule/named.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <iostream>
#include <list>

namespace trireme::runtime {
namespace {

/// A chain with what the shipped models lack: tuples, a member that is passed through, an integer
/// member, in-place operators, state that is not a tensor, an output that is a view, one that
/// exposes a parameter.
class Odd : public model::Layer {
 public:
  Odd(int place, const model::Seeds& seeds) : place_(place) {
    weight_ =
        add_parameter("weight", at::empty({kWidth, kWidth}).normal_(0, 0.1, seeds.of_layer()));
    bias_ = add_parameter("bias", at::zeros({kWidth}));
    calls_ = add_buffer("calls", at::zeros({1}));
    if (place_ == 3) query_ = add_parameter("query", at::full({kWidth}, 0.1));
  }
  model::Values forward(const model::Values& input, const model::Context& context) override {
    const at::Tensor& x = input[0];
    if (context.training) calls_.add_(1);
    at::Tensor h = at::linear(x, weight_, bias_).relu_();
    h = (h * (1 + 0.5 * at::rand(h.sizes(), context.generator, x.options()))).add_(0.01);
    const at::Tensor length =
        input.size() > 2 ? input[2] : at::full({1}, place_, x.options().dtype(at::kLong));
    const at::Tensor both = at::cat({h, x}, 1);
    const at::Tensor first = both.narrow(1, 0, kWidth);
    if (input.size() < 2) return {first, x, length};
    return {first + length.to(at::kFloat), query_.defined() ? query_.expand_as(input[1]) : input[1],
            length};
  }
  static constexpr std::int64_t kWidth = 48;

 private:
  int place_;
  at::Tensor weight_, bias_, calls_, query_;
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
  std::function<std::unique_ptr<Subject>(Machine&)> make;
};

/// Trained in two micro-batches.
Chain shipped(std::string name, const config::ModelSpec& spec, int micro_batch,
              const std::string& precision = "float32", const std::string& tapes = "full",
              double clip_norm = 1) {
  config::JobSpec job = small_job(spec);
  job.train.micro_batch = micro_batch;
  job.train.batch = 2 * micro_batch;
  job.train.precision = precision;
  job.train.clip_norm = clip_norm;
  job.memory.tapes = tapes;
  return {std::move(name), [job](Machine& machine) {
            return std::make_unique<Subject>(model::make_model(job.model), job, machine);
          }};
}

/// On rows of isolated documents.
Chain isolated(std::string name, const config::ModelSpec& spec, const std::string& tapes) {
  config::JobSpec job = small_job(spec);
  job.train.batch = 4;
  job.data.kind = "documents";
  job.data.isolated = true;
  job.memory.tapes = tapes;
  return {std::move(name), [job](Machine& machine) {
            return std::make_unique<Subject>(model::make_model(job.model), job, machine);
          }};
}

std::unique_ptr<Subject> scripted(
    const std::function<config::TorchScriptSpec(const std::filesystem::path&)>& save,
    const std::string& precision, Machine& machine) {
  static std::list<support::TemporaryFolder> files;
  config::JobSpec job = small_job(save(files.emplace_back().path()));
  job.train.micro_batch = 64;
  job.train.batch = 128;
  job.train.precision = precision;
  return std::make_unique<Subject>(model::make_model(job.model), job, machine);
}

std::vector<Chain> all_chains() {
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
  config::GptSpec tuned = gpt;
  tuned.lora_rank = 4;
  config::GptSpec top = gpt;
  top.trained = {"block2.*"};
  const config::LlamaSpec llama{
      .blocks = 3, .width = 64, .heads = 4, .kv_heads = 2, .context = 32, .vocabulary = 50};
  config::LlamaSpec gemma = llama;
  gemma.activation = "gelu_tanh";
  gemma.norms = "both";
  gemma.qk_norm = "head";
  gemma.zero_centered_norms = true;
  gemma.tied_head = true;
  gemma.attention_cap = gemma.logits_cap = 5;
  gemma.window = 9;
  gemma.window_blocks = {0, 2};
  config::LlamaSpec phi = llama;
  phi.fused_linears = true;
  phi.rope_fraction = 0.5;
  phi.window = 9;
  phi.grain = "fine";
  const config::ResnetSpec resnet{
      .depth = 18, .image_size = 16, .channels = 3, .classes = 10, .width = 8};
  const config::VggSpec vgg{.depth = 11, .image_size = 32, .width = 4, .batch_norm = true};
  const config::VitSpec vit{
      .image_size = 16, .patch = 4, .blocks = 2, .width = 48, .heads = 3, .dropout = 0.1};
  config::JobSpec odd = small_job(config::MlpSpec{});
  odd.train.micro_batch = 32;
  odd.train.batch = 96;
  return {
      shipped("gpt", gpt, 2),
      shipped("gpt_fine", fine, 2),
      shipped("gpt_lora", tuned, 2, "bfloat16_weights"),
      shipped("gpt_top", top, 2),
      shipped("llama", llama, 2),
      shipped("gemma", gemma, 2),
      shipped("gemma_lean_tapes", gemma, 2, "bfloat16", "lean"),
      shipped("phi", phi, 2),
      shipped("phi_bfloat16_weights_lean_tapes", phi, 2, "bfloat16_weights", "lean"),
      shipped("resnet", resnet, 4),
      shipped("vgg", vgg, 4),
      shipped("vit", vit, 4),
      shipped("gpt_lean_tapes", gpt, 2, "float32", "lean"),
      shipped("llama_lean_tapes", llama, 2, "bfloat16", "lean"),
      shipped("gpt_bfloat16", gpt, 2, "bfloat16"),
      shipped("gpt_bfloat16_weights", gpt, 2, "bfloat16_weights"),
      shipped("gpt_bfloat16_weights_lean_tapes", gpt, 2, "bfloat16_weights", "lean"),
      shipped("llama_unclipped", llama, 2, "bfloat16_weights", "full", 0),
      shipped("llama_bfloat16_weights_lean_tapes", llama, 2, "bfloat16_weights", "lean"),
      isolated("gpt_documents", gpt, "full"),
      isolated("gemma_documents", gemma, "full"),
      isolated("phi_documents_lean_tapes", phi, "lean"),
      shipped("mlp_batch_norm", mlp, 64),
      {"odd",
       [odd](Machine& machine) { return std::make_unique<Subject>(odd_model(), odd, machine); }},
      {"torchscript", [](Machine& machine) { return scripted(save_scripts, "float32", machine); }},
      {"torchscript_frozen", [](Machine& machine) {
         return scripted(save_frozen_scripts, "bfloat16_weights", machine);
       }}};
}

void expect_equal(const std::vector<at::Tensor>& expected, const std::vector<at::Tensor>& found,
                  const std::string& what) {
  ASSERT_EQ(expected.size(), found.size()) << what;
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_TRUE(at::equal(expected[i], found[i])) << what << " " << i;
}

/// If all streamed weights are trained, updates may be anywhere, with some of the state offloaded.
void update_among_passes(simulate::Dice& dice, const Subject& subject, plan::Plan& plan) {
  plan.updates = program::UpdatePlace::kAtEnd;
  plan.stages.front().offloaded_optimizer = plan.update_window = Bytes(0);
  for (const int layer : plan.stages.front().streamed)
    if (!subject.chain().layer(layer).may_leave().is_trained) return;
  if (dice.roll(0, 1) == 0) return;
  plan.updates = subject.updates_among_passes();
  if (dice.roll(0, 1) == 0 || plan::updated_layers(plan).front().empty()) return;
  plan.stages.front().offloaded_optimizer =
      chain::optimizer_bytes(subject.chain(), 1, subject.chain().length()) / dice.roll(2, 5);
  plan.update_window = Bytes(dice.roll(6, 40) << 10);
}

/// Splits some backwards, which then go with neither groups nor updates among passes.
void split_backward(simulate::Dice& dice, plan::Plan& plan) {
  plan.order.clear();
  if (dice.roll(0, 2) > 0) return;
  plan.group = 1;
  plan.updates = program::UpdatePlace::kAtEnd;
  plan.stages.front().offloaded_optimizer = plan.update_window = Bytes(0);
  plan::set_order(plan, schedule::one_f_one_b_with({1}, plan.micro_batches,
                                                   {dice.roll(0, plan.micro_batches)}));
}

/// Changes to a random program, as far as the validator allows them.
constexpr int kChanges = 300;
/// A fraction of the way from the least budget that works to that of keep_all.
constexpr std::array kShares{0.0, 0.2, 0.5, 0.8, 1.0};

}  // namespace

std::vector<std::string> BudgetCases::chains() {
  std::vector<std::string> names;
  for (const Chain& chain : all_chains()) names.push_back(chain.name);
  return names;
}

std::vector<BudgetCase> BudgetCases::of_chain(const std::string& chain) {
  std::vector<BudgetCase> cases;
  for (const char* solver : {"keep_all", "recompute_all", "periodic 2", "sqrt", "revolve",
                             "min_peak", "rotor", "rotor_free", "capuchin", "offload", "pofo"})
    cases.emplace_back(chain, solver);
  if (chain == "gpt_lora" || chain == "gpt_top" || chain == "torchscript_frozen" ||
      chain == "gpt" || chain == "llama" || chain == "vgg" || chain == "gpt_bfloat16_weights")
    for (const char* solver :
         {"keep_all, weights streamed", "recompute_all, weights streamed",
          "rotor, weights streamed", "pofo, weights streamed", "rotor, weights streamed, in groups",
          "pofo, weights streamed, in groups"})
      cases.emplace_back(chain, solver);
  if (chain == "gpt" || chain == "gpt_bfloat16_weights" || chain == "llama_unclipped")
    for (const char* solver :
         {"keep_all, weights streamed, updated among passes",
          "rotor, weights streamed, optimizer offloaded, updated among passes",
          "pofo, weights streamed, optimizer offloaded, in groups, updated among passes"})
      cases.emplace_back(chain, solver);
  if (chain != "gpt" && chain != "gpt_lora" && chain != "gpt_bfloat16_weights" && chain != "odd")
    return cases;
  for (const char* solver :
       {"keep_all, optimizer offloaded", "rotor, optimizer offloaded", "pofo, optimizer offloaded"})
    cases.emplace_back(chain, solver);
  if (chain == "gpt" || chain == "gpt_bfloat16_weights")
    for (const char* solver : {"keep_all, weights streamed, optimizer offloaded",
                               "rotor, weights streamed, optimizer offloaded"})
      cases.emplace_back(chain, solver);
  return cases;
}

std::vector<BudgetCase> BudgetCases::all() {
  std::vector<BudgetCase> cases;
  for (const std::string& chain : chains()) {
    for (BudgetCase& one : of_chain(chain)) cases.push_back(std::move(one));
  }
  return cases;
}

std::string BudgetCases::test_name(const testing::TestParamInfo<BudgetCase>& test) {
  std::string name = concat(test.param.first, "_", test.param.second);
  std::erase(name, ',');
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

void BudgetCases::expect_bits_and_peaks(const BudgetCase& one, bool in_turns) {
  const auto& [chain, solver] = one;
  Subject& subject = subject_named(chain);
  const Bytes most = subject.keep_all_budget();
  const Bytes least = subject.least_budget(solver).value_or(most);
  for (std::size_t k = 0; k < kShares.size(); ++k) {
    const double share = kShares[k];
    if (in_turns && k > 0 && (k + solver.size() + chain.size()) % 4 != 0) continue;
    const Bytes budget =
        least +
        Bytes(static_cast<std::int64_t>(share * static_cast<double>((most - least).count())));
    const std::string name = concat(chain, ", ", solver, " at ", to_text(budget));
    SCOPED_TRACE(name);
    const auto plan = subject.plan(solver, budget);
    ASSERT_TRUE(plan) << "no plan at the budget that was said to be enough";

    expect_bits_and_peak(subject, *plan, budget, name);
  }
}

void BudgetCases::expect_bits_and_peaks_of_random_programs(const std::string& chain,
                                                           unsigned programs) {
  Subject& subject = subject_named(chain);
  plan::Plan plan = subject.plan("keep_all", subject.keep_all_budget()).value();
  program::StageProgram& stage = plan.stages.front().program;
  unsigned changes = 0, split = 0;
  for (unsigned seed = 0; seed < programs; ++seed) {
    simulate::Dice dice(seed);
    const bool copies = dice.roll(0, 2) > 0;
    stage = simulate::RandomStage(dice, 1, subject.chain().length(), copies).make();
    if (dice.roll(0, 1) == 0) stage = program::with_retapes(std::move(stage), subject.chain());
    std::vector<int>& streamed = plan.stages.front().streamed;
    streamed = partition::all_to_stream(subject.chain());
    std::erase_if(streamed, [&](int) { return dice.roll(0, 2) == 0; });
    plan.weights_at_once = dice.roll(2, 4);
    simulate::Dice of_updates(programs + seed);
    update_among_passes(of_updates, subject, plan);
    // A gradient is counted like its output, views with all of their storage: in groups, once for
    // each waiting micro-batch, which for odd layers is more than the margin.
    plan.group = chain == "odd" ? 1 : dice.roll(1, plan.micro_batches);
    split_backward(of_updates, plan);
    split += plan::has_split_backward(plan) ? 1 : 0;
    for (int change = 0; change < kChanges; ++change) {
      const program::StageProgram before = stage;
      stage = simulate::changed(dice, std::move(stage));
      if (subject.fault(plan).empty())
        ++changes;
      else
        stage = before;
    }
    const std::string name = concat(chain, ", program ", seed);
    SCOPED_TRACE(concat(name, ":\n", program::to_text(plan::compile_passes(plan))));
    ASSERT_EQ(subject.fault(plan), "");
    expect_bits_and_peak(subject, plan, Bytes(0), name);
    if (testing::Test::HasFailure()) return;
  }
  std::cout << chain << ": " << programs << " random programs with " << changes
            << " changes that the validator allows, " << split << " with backwards in two parts\n";
  EXPECT_GE(changes, 3 * programs);
  EXPECT_GE(split, programs / 8);
}

void BudgetCases::expect_bits_and_peak(Subject& subject, const plan::Plan& plan, Bytes budget,
                                       const std::string& name) {
  const PlannedRun run = subject.run(plan, budget);

  EXPECT_EQ(run.numbers.losses, subject.expected().losses);
  expect_equal(subject.expected().gradients, run.numbers.gradients, "gradient");
  expect_equal(subject.expected().parameters, run.numbers.parameters, "parameter");
  expect_equal(subject.expected().buffers, run.numbers.buffers, "buffer");
  if (budget > Bytes(0)) {
    EXPECT_LE(run.peak, budget);
  }
  // These chains are small: where bytes are counted exactly, a margin of 1 MiB would hide anything.
  const Bytes least = machine_.enforces() ? Bytes(4 << 10) : Bytes(1 << 20);
  const Bytes margin = std::max(least, run.peak / 50);
  // A window for streamed state is counted as full, which it is not where parts end with their
  // layer.
  EXPECT_LE(run.predicted_peak, run.peak + margin + plan::update_windows(plan).front());
  EXPECT_GE(run.predicted_peak, run.peak - margin);
  note(name, run.predicted_peak, run.peak);
}

void BudgetCases::say_how_it_went() const {
  std::cout << good_ << " of " << runs_
            << " planned runs have keep_all's bits and keep their budget; worst prediction of a "
               "peak "
            << 100 * worst_share_ << " % off (" << worst_difference_.count() << " B), "
            << worst_name_ << "\n";
}

Subject& BudgetCases::subject_named(const std::string& name) {
  std::unique_ptr<Subject>& subject = subjects_[name];
  if (subject) return *subject;
  for (const Chain& chain : all_chains()) {
    if (chain.name == name) subject = chain.make(machine_);
  }
  return *subject;
}

void BudgetCases::note(const std::string& name, Bytes predicted, Bytes measured) {
  ++runs_;
  good_ += testing::Test::HasFailure() ? 0 : 1;
  const Bytes difference = predicted > measured ? predicted - measured : measured - predicted;
  if (difference / measured <= worst_share_) return;
  worst_share_ = difference / measured;
  worst_difference_ = difference;
  worst_name_ = name;
}

}  // namespace trireme::runtime
