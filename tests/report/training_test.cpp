// The training section of a run's page, and how it reports the run's end.
// SPDX-License-Identifier: Apache-2.0
#include "report/samples.h"
#include "report/well_formed.h"

#include "trireme/report/run_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace trireme::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// A page on two stages, without links between them.
struct Page {
  chain::Chain chain = two_layers();
  plan::Plan plan = two_stages(2);
  simulate::Simulation predicted = timeline(plan, chain, chain::uniform_platform(2, Bytes(0)));
  RunPage run{.name = "one", .plan = plan, .chain = chain};

  std::string text() const { return run_page(run); }
};

/// A run of `steps` steps whose loss is 1 / step.
TrainingCurves falling_loss(int steps) {
  TrainingCurves training;
  for (int step = 1; step <= steps; ++step) training.train_loss.push_back({step, 1.0 / step});
  return training;
}

TEST(RunPage, SaysAtTheTopHowARunEndedEarlyAndWhatToDo) {
  Page page;
  page.run.predicted = &page.predicted;
  EXPECT_THAT(page.text(), Not(HasSubstr("class=\"notice\"")));
  page.run.early_end = "diverged in step 4 of 9: the loss is not finite";
  page.run.note = "measure <again>";
  page.run.training = falling_loss(4);

  const std::string text = page.text();

  EXPECT_EQ(markup_fault(text), "");
  const std::size_t place =
      text.find("This run diverged in step 4 of 9: the loss is not finite.</p>");
  ASSERT_NE(place, std::string::npos);
  EXPECT_LT(place, text.find("<h2>"));
  EXPECT_THAT(text, HasSubstr(">Note: measure &lt;again&gt;.</p>"));
  EXPECT_THAT(text, HasSubstr("when a run completes. What follows is the predicted step."));
}

TEST(RunPage, SaysWhyNothingWasPredictedAndHowToGetAPrediction) {
  EXPECT_THAT(Page().text(), HasSubstr("it has no memory budget. trireme check JOB.yaml --report"));
}

TEST(RunPage, MarksWhereARunWentOn) {
  Page page;
  page.run.training = falling_loss(9);
  EXPECT_THAT(page.text(), Not(HasSubstr("went on")));
  page.run.training.resumed_after = 5;

  EXPECT_THAT(page.text(), HasSubstr("where the run resumed from step 5."));
  // The middle of steps 1 to 9, and of 64 to 950 pixels.
  EXPECT_THAT(page.text(), HasSubstr("<line x1=\"507\" y1=\"24\" x2=\"507\""));
}

TEST(RunPage, SaysOfWhichStepEveryLastValueIs) {
  Page page;
  page.run.training = falling_loss(300);
  page.run.training.validation_loss = {{100, 0.5}, {200, 0.25}};

  const std::string text = page.text();

  EXPECT_THAT(text, HasSubstr("Every training step (pale), the mean over 3 of them (strong)"));
  EXPECT_THAT(text, HasSubstr("At the right: the value of the last step alone."));
  EXPECT_THAT(text, HasSubstr(">validation 0.25</text>"));
  EXPECT_EQ(count_of(text, ">(after step 200)</text>"), 1);
  EXPECT_EQ(count_of(text, "(after step"), 1);
}

/// The labels of a chart of these values, and what stands at the curve's end.
std::vector<std::string> labels_of(const std::vector<CurvePoint>& values) {
  Page page;
  page.run.training.throughput = values;
  std::string text = page.text();
  text = text.substr(text.find(">tokens per second"));
  text = text.substr(0, text.find("</svg>"));
  std::vector<std::string> labels;
  for (const std::string how : {"class=\"end\">", "class=\"\">"}) {
    for (std::size_t at = text.find(how); at != std::string::npos; at = text.find(how, at + 1)) {
      const std::size_t begin = at + how.size();
      labels.push_back(text.substr(begin, text.find('<', begin) - begin));
    }
  }
  return labels;
}

TEST(RunPage, WritesAllNumbersOfAnAxisInOneNotation) {
  EXPECT_THAT(labels_of({{1, 20000}, {2, 22010}}), ElementsAre("0", "10", "20", "22.01k"));
  EXPECT_THAT(labels_of({{1, 0}, {2, 3e-4}}), ElementsAre("0", "0.0002", "0.0003"));
  EXPECT_THAT(labels_of({{1, 0}, {2, 1e-3}}), ElementsAre("0", "0.0005", "0.001", "0.001"));
  EXPECT_THAT(labels_of({{1, 0}, {2, 2.5e-5}}), ElementsAre("0", "1e-5", "2e-5", "2.5e-5"));
  EXPECT_THAT(labels_of({{1, 0}, {2, 9000}}), ElementsAre("0", "5000", "9000"));
  EXPECT_THAT(labels_of({{1, 0}, {2, 4e9}}), ElementsAre("0", "2", "4", "4G"));
}

TEST(RunPage, CountsStepsInWholeNumbers) {
  Page page;
  page.run.training = falling_loss(100'000);

  EXPECT_THAT(page.text(), HasSubstr(">100000</text>"));
  EXPECT_THAT(page.text(), Not(HasSubstr("1e")));
}

TEST(RunPage, SaysWhatTheIdealAndTheBubbleAre) {
  Page page;
  page.run.measured = &page.predicted;

  // Two equal stages, two micro-batches of 3 s each: (m + p - 1)(f + b) = 9 s (Narayanan et al.
  // 2021), of which each rank works 6 s.
  EXPECT_THAT(page.text(), HasSubstr("+50.0 % over the ideal 6.00 s:</div>"
                                     "<div class=\"more\">no waits, no recomputation</div>"));
  EXPECT_THAT(page.text(), HasSubstr(">of the ranks' time in this step</div>"));
}

}  // namespace
}  // namespace trireme::report
