// Layers from Python as a user meets them.
// SPDX-License-Identifier: Apache-2.0
#include "scripts.h"
#include "support/command.h"
#include "support/document_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme {
namespace {

using support::learned;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kLoss =
    "return torch.cross_entropy_loss(torch.flatten(torch.linear(x, self.w), 0, 1), "
    "torch.flatten(target))";

class ScriptCommand : public testing::Test {
 protected:
  ScriptCommand() {
    save("a", "self, i", "return torch.embedding(self.w, i)");
    save("b", "self, x, target", kLoss);
  }
  void save(const std::string& name, const std::string& arguments, const std::string& body) {
    runtime::save_script({.code = "def forward(" + arguments + "):\n    " + body + "\n",
                          .parameters = {{"w", at::ones({256, 4}) / 7}}},
                         folder_.path() / (name + ".pt"));
  }
  CommandResult run(const std::string& command, const std::string& settings = "") {
    return run_command(std::string(TRIREME_BINARY) + " " + command + " " + settings);
  }

  TemporaryFolder folder_;
  std::string text_ = folder_.file("text", std::string(4000, 'a') + "Now is the time.");
  std::string job_ =
      folder_.file("job.yaml", "model: {kind: torchscript, files: [\"" + folder_.path().string() +
                                   "/*.pt\"], context: 8}\ndata: {kind: text, files: [" + text_ +
                                   "]}\ntrain: {steps: 2, batch: 2, micro_batch: 2, schedule: "
                                   "{warmup_steps: 1}}\nthreads: 1\ncheckpoint: {every: 1}\n"
                                   "report: {directory: " +
                                   (folder_.path() / "run").string() + "}\n");
};

TEST_F(ScriptCommand, SaysThatFilesArePrograms) {
  const CommandResult trained = run("train " + job_);
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
  EXPECT_THAT(trained.errors, HasSubstr("note: model.files are programs"));
}

TEST_F(ScriptCommand, DoesNotGoOnWithAText) {
  ASSERT_EQ(run("train " + job_).exit_code, 0);
  const CommandResult refused =
      run("generate " + (folder_.path() / "run").string() + " --prompt abc --tokens 5");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.out, "");
  EXPECT_THAT(refused.errors, HasSubstr("the last layer gives a loss, no logits"));
}

TEST_F(ScriptCommand, EndsWithTwoForAMistake) {
  save("b", "self, x, target", "return torch.linear(x, self.w)");
  for (const std::string settings : {"", "--set pipeline.stages=2"}) {
    const CommandResult refused = run("train " + job_, settings);
    EXPECT_EQ(refused.exit_code, 2) << settings;
    EXPECT_THAT(refused.errors, HasSubstr("b.pt: forward gave Float [2, 8, 256]"));
    EXPECT_THAT(refused.errors, Not(HasSubstr("defect")));
  }
}

TEST_F(ScriptCommand, TakesDocumentsWhereItSaysSo) {
  const std::string file = folder_.file(
      "a.documents", support::document_file({{1, 2, learned(3)}, {4, learned(5), learned(6)}}));
  const std::string data =
      " --set 'data={kind: documents, files: [" + file + "], validation_fraction: 0}'";
  const CommandResult refused = run("train " + job_, data);
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.errors, HasSubstr("model.masked_targets: true"));
  const CommandResult trained = run("train " + job_, data + " --set model.masked_targets=true");
  EXPECT_EQ(trained.exit_code, 0) << trained.errors;
}

}  // namespace
}  // namespace trireme
