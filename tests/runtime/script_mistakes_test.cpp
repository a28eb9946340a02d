// Mistakes in layers from Python are user errors, and the message says what forward returned.
// SPDX-License-Identifier: Apache-2.0
#include "scripts.h"
#include "small_runs.h"
#include "support/input_error.h"
#include "support/temporary_folder.h"

#include "trireme/core/text.h"
#include "trireme/profile/measure.h"
#include "trireme/tier/memory.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>

#include <limits>
#include <ostream>

namespace trireme::runtime {
namespace {

using support::input_error;
using support::TemporaryFolder;
using testing::AllOf;
using testing::HasSubstr;

/// The body of a layer's forward, and the expected message.
struct Mistake {
  const char* name;
  int layer;  ///< 4: the last one, which gives the loss
  const char* body;
  const char* said;
  const char* then = "";  ///< said, too; what is between them depends on the version of LibTorch
};

std::ostream& operator<<(std::ostream& out, const Mistake& mistake) {
  return out << mistake.name;
}

const Mistake kMistakes[] = {
    {"Logits", 4, "return torch.linear(x, self.w)",
     "forward gave Float [2, 32], must give the mean loss of the micro-batch, one floating number"},
    {"LossPerExample", 4,
     "return torch.cross_entropy_loss(torch.linear(x, self.w), target, None, 0)",
     "forward gave Float [2], must give the mean loss"},
    {"WholeNumber", 4, "return (torch.argmax(torch.linear(x, self.w), 1) == target).sum()",
     "forward gave Long [], must give the mean loss"},
    {"LossAndMore", 4, "return torch.linear(x, self.w).mean(), x",
     "forward gave Float [], Float [2, 32], must give the mean loss"},
    {"LossWithoutGradient", 4, "return torch.linear(x, self.w).detach().mean()",
     "forward gave Float [], through which no gradient flows"},
    {"ChangedTarget", 4,
     "target.add_(1)\n    return torch.cross_entropy_loss(torch.linear(x, self.w), target - 1)",
     "changes its target in place"},
    {"Detached", 2, "return x.detach() * self.w.detach()[0], before.detach()",
     "through which no gradient flows"},
    {"Whole", 2, "return torch.argmax(x, 1), torch.argmax(before, 1)",
     "forward gave Long [2], Long [2], through which no gradient flows"},
    {"ChangedWeight", 2, "self.w.detach().mul_(0.5)\n    return torch.linear(x, self.w), before",
     "changes its parameter w in place"},
    {"Sparse", 2, "return torch.linear(x, self.w).to_sparse(), before", "must give dense tensors"},
    {"Complex", 2, "return torch.linear(x, self.w) * 1j, before", "must give real numbers"},
    {"WrongSizes", 2, "return torch.mm(x, x), before",
     "forward failed: RuntimeError: ", "mat1 and mat2 shapes cannot be multiplied"},
    {"WrongType", 2, "return torch.linear(x.long(), self.w), before",
     "(it was given Float [2, 32], Float [2, 32])"},
    {"ChangedResult", 2,
     "y = torch.exp(torch.linear(x, self.w))\n    y.add_(1)\n    return y, before",
     "layer2.pt: forward needs a value ([CPUFloatType [2, 32]], which is output 0 of Exp",
     ") for its backward and changes it in place afterwards"},
    {"ChangedOperand", 4,
     "h = torch.linear(x, self.w)\n    loss = torch.cross_entropy_loss(h * h, target)\n    "
     "h.mul_(2)\n    return loss + h.mean()",
     "layer4.pt: forward needs a value ([CPUFloatType [2, 32]], which is output 0 of "},
    {"Raised", 2, "assert x.size(0) == 77, \"rows, please\"\n    return x * self.w[0], before",
     "rows, please"},
};

class Mistakes : public testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, AreTheUsers) {
  const TemporaryFolder folder;
  const config::JobSpec job = small_job(save_scripts(folder.path()));
  const Mistake& mistake = GetParam();
  const std::string file = concat("layer", mistake.layer, ".pt");
  save_script({.code = concat("def forward(self, x, before", mistake.layer == 4 ? ", target" : "",
                              "):\n    ", mistake.body, "\n"),
               .parameters = {{"w", at::eye(32)}}},
              folder / file);
  const std::string error = input_error([&] { run_small(job, {}); });
  EXPECT_THAT(error,
              AllOf(HasSubstr(concat("layer ", mistake.layer + 1, " (layer", mistake.layer, "): ")),
                    HasSubstr(file), HasSubstr(mistake.said), HasSubstr(mistake.then)));
  EXPECT_THAT(error, testing::Not(HasSubstr("defect")));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Mistakes, testing::ValuesIn(kMistakes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ScriptMistakes, AreValuesThatAreNoNumbersFromTheBeginning) {
  const auto refusal = [](const Script& script) {
    const TemporaryFolder folder;
    const config::TorchScriptSpec spec = save_scripts(folder.path());
    save_script(script, folder / "layer2.pt");
    return input_error([&] { model::make_model(spec); });
  };
  const std::string code = "def forward(self, x, before):\n    return x, before\n";
  const double nan = std::numeric_limits<double>::quiet_NaN(),
               infinity = std::numeric_limits<double>::infinity();
  EXPECT_THAT(refusal({.code = code, .parameters = {{"w", at::full({3}, nan)}}}),
              HasSubstr("layer2.pt: parameter w has nan, must have numbers"));
  EXPECT_THAT(refusal({.code = code, .parameters = {{"w", at::full({3}, infinity)}}}),
              HasSubstr("layer2.pt: parameter w has infinity"));
  EXPECT_THAT(refusal({.code = code, .parameters = {{"w", at::full({3}, nan)}}, .is_frozen = true}),
              HasSubstr("parameter w has nan"));
  EXPECT_THAT(refusal({.code = code,
                       .parameters = {{"w", at::ones({3})}},
                       .buffers = {{"b", at::full({3}, nan).to(at::kHalf)}}}),
              HasSubstr("buffer b has nan"));
}

TEST(ScriptMistakes, AreNoSparseGradients) {
  const auto losses_of = [](const char* is_sparse) {
    const TemporaryFolder folder;
    save_script({.code = concat("def forward(self, i, target):\n    x = torch.embedding(self.w, i, "
                                "-1, False, ",
                                is_sparse,
                                ")\n    return torch.cross_entropy_loss(torch.flatten(x, 0, 1), "
                                "torch.flatten(target))\n"),
                 .parameters = {{"w", at::eye(7)}}},
                folder / "l.pt");
    config::TorchScriptSpec spec;
    spec.files = {(folder / "l.pt").string()};
    spec.context = 6;
    spec.classes = 7;
    return run_small(small_job(spec), {}).train_loss;
  };
  EXPECT_NEAR(losses_of("True"), losses_of("False"), 1e-6);
}

TEST(ScriptMistakes, AreSeenByTheProfileToo) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(save_scripts(folder.path()));
  save_script(
      {.code = "def forward(self, x, before, target):\n    return torch.linear(x, self.w)\n",
       .parameters = {{"w", at::eye(32)}}},
      folder / "layer4.pt");
  EXPECT_THAT(input_error([&] { profile::measure(model::make_model(job.model), job, {}); }),
              HasSubstr("layer 5 (layer4): "));
}

/// A chain whose third layer changes a value in place from its second forward on, which a profile
/// has not seen.
config::JobSpec later_change(const TemporaryFolder& folder, const std::string& value) {
  const config::JobSpec job = small_job(save_scripts(folder.path()));
  save_script({.code = "def forward(self, x, before):\n"
                       "    h = torch.tanh(torch.linear(x, self.w))\n"
                       "    y = torch.linear(h.clone(), self.w)\n"
                       "    if bool(self.runs > 0):\n        " +
                       value +
                       ".mul_(0.5)\n"
                       "    if self.training:\n        self.runs.add_(1)\n"
                       "    return y + h.detach(), before\n",
               .parameters = {{"w", at::eye(32)}},
               .buffers = {{"runs", at::zeros({1})}}},
              folder / "layer2.pt");
  return job;
}

TEST(ScriptMistakes, ThatNoProfileSawAreToldInEveryProgram) {
  for (const bool recompute : {false, true})
    for (const std::vector<int>& cut : {std::vector<int>{}, {2}}) {
      const TemporaryFolder folder;
      const config::JobSpec job = later_change(folder, "h");
      EXPECT_THAT(input_error([&] { run_small(job, {.cut = cut, .recompute = recompute}); }),
                  AllOf(HasSubstr("layer 3 (layer2): "), HasSubstr("layer2.pt: "),
                        HasSubstr("changes it in place afterwards")))
          << recompute;
      const TemporaryFolder other;
      EXPECT_NO_THROW(run_small(later_change(other, "y"), {.cut = cut, .recompute = recompute}));
    }
}

TEST(ScriptMistakes, AreModulesWithoutAForward) {
  const TemporaryFolder folder;
  const config::TorchScriptSpec spec = save_scripts(folder.path());
  torch::jit::Module module("layer");
  module.register_parameter("w", at::ones({1}).requires_grad_(), false);
  module.save((folder / "layer2.pt").string());
  EXPECT_THAT(input_error([&] { model::make_model(spec); }),
              HasSubstr("layer2.pt: has no method forward"));
}

/// Keeps the rows of x that are above 1, each widened.
constexpr const char* kVarying =
    "def forward(self, x, before):\n"
    "    rows = torch.nonzero(x[:, 0] > 0.99)[:, 0]\n"
    "    wide = torch.gelu(torch.linear(x[rows], self.w).repeat([1, 64]))\n"
    "    return x + wide.sum() + self.w.sum(), before\n";

TEST(VaryingSizes, AreNotedByTheProfileAndGivenRoom) {
  const TemporaryFolder folder;
  config::JobSpec job = small_job(save_scripts(folder.path()));
  std::vector<std::string> notes;
  const profile::MeasureOptions options{
      .least_time = Seconds(0), .least_runs = 1, .note = [&](const std::string& note) {
        notes.push_back(note);
      }};
  const auto tape = [&] {
    return profile::measure(model::make_model(job.model), job, options).layer(3).tape;
  };
  tape();
  EXPECT_TRUE(notes.empty()) << notes.front();

  save_script({.code = kVarying, .parameters = {{"w", at::eye(32)}}}, folder / "layer2.pt");
  // The input of the widest operator, which it keeps, for both rows.
  EXPECT_GE(tape(), Bytes(std::int64_t{2} * 32 * 64 * 4));
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_THAT(notes[0], HasSubstr("layer 3 (layer2) has tensors whose sizes depend on the values"));
}

TEST(ChangedBuffers, ThatTheOutputDependsOnAreNotedByTheProfile) {
  const auto notes_of = [](const std::string& body) {
    const TemporaryFolder folder;
    config::JobSpec job = small_job(save_scripts(folder.path()));
    save_script({.code = "def forward(self, x, before):\n    " + body + ", before\n",
                 .parameters = {{"w", at::eye(32)}},
                 .buffers = {{"mean", at::full({32}, 0.5)}}},
                folder / "layer2.pt");
    std::vector<std::string> notes;
    profile::measure(model::make_model(job.model), job,
                     {.least_time = Seconds(0), .least_runs = 1, .note = [&](const auto& note) {
                        notes.push_back(note);
                      }});
    return notes;
  };
  const std::string update = "self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))\n    ";
  const auto noted = testing::ElementsAre(
      HasSubstr("layer 3 (layer2) has an output that depends, in training, on a buffer"));
  EXPECT_THAT(notes_of(update + "return torch.linear(x - self.mean, self.w)"), noted);
  EXPECT_THAT(notes_of("y = torch.linear(x - self.mean, self.w)\n    " + update + "return y"),
              noted);
  EXPECT_THAT(notes_of("y = x - self.mean\n    self.mean = self.mean + 1\n    "
                       "return torch.linear(y, self.w)"),
              noted);
  EXPECT_THAT(notes_of(update + "return torch.dropout(torch.linear(x, self.w), 0.5, True)"),
              testing::IsEmpty());
  EXPECT_THAT(notes_of("return torch.linear(x - self.mean, self.w)"), testing::IsEmpty());
}

// The interpreter would turn it into a plain error, after a trace.
TEST(VaryingSizes, OverTheBudgetAreAnErrorOfMemoryThatBeginsWithIt) {
  const TemporaryFolder folder;
  const config::TorchScriptSpec spec = save_scripts(folder.path());
  save_script({.code = kVarying, .parameters = {{"w", at::eye(32)}}}, folder / "layer2.pt");
  const auto layer = model::make_model(spec).layers[2].build(model::Seeds(1, 3));
  const at::Tensor x = at::ones({1000, 32});
  tier::install_cpu_allocator();
  tier::MemoryAccount& account = tier::MemoryAccount::open("rank 7");
  const tier::AccountScope scope(account);
  account.set_budget(Bytes(1'000'000));
  try {
    layer->forward({x, x}, {.generator = model::Seeds(1, 1).of_layer(), .target = {}});
    FAIL() << "8 MB within 1 MB";
  } catch (const c10::OutOfMemoryError& error) {
    const std::string words = error.what_without_backtrace();
    EXPECT_EQ(words.find('\n'), std::string::npos) << words;
    EXPECT_NE(words.find("rank 7: the memory budget of"), std::string::npos) << words;
    EXPECT_NE(words.find("layer2.pt"), std::string::npos) << words;
  }
}

}  // namespace
}  // namespace trireme::runtime
