// Ranks that have read unlike things are refused, with what is unlike.
// SPDX-License-Identifier: Apache-2.0
#include "job/same_everywhere.h"

#include "trireme/comm/local.h"
#include "trireme/core/digest.h"
#include "trireme/io/node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace trireme::app {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

/// What a rank has read.
struct Inputs {
  config::JobSpec job{io::parse("{}", "job")};
  model::ChainModel model{.name = "mine",
                          .layers = {{.name = "first", .sketch = "Linear 8 x 8"},
                                     {.name = "last", .sketch = "Linear 8 x 3"}},
                          .input_size = 8,
                          .classes = 3};
  std::string data = digest("data");
};

/// What three ranks say, of which rank 1 has changed its inputs; empty: nothing.
std::vector<std::string> said(const std::function<void(Inputs&)>& change) {
  std::vector<std::string> words(3);
  comm::run_local(3, {}, [&](comm::Channel& channel) {
    Inputs mine;
    if (channel.rank() == 1) change(mine);
    try {
      require_same_everywhere(channel, mine.job, mine.model, mine.data);
    } catch (const InputError& error) {
      words[static_cast<std::size_t>(channel.rank())] = error.what();
    }
  });
  EXPECT_EQ(words[0], words[1]);
  EXPECT_EQ(words[0], words[2]);
  return words;
}

TEST(InputsOfRanks, MayBeTheSame) {
  EXPECT_THAT(said([](Inputs&) {}).front(), IsEmpty());
}

TEST(InputsOfRanks, AreRefusedByWhatDiffersOnEveryRank) {
  const auto of = [](const auto& change) { return said(change).front(); };
  EXPECT_THAT(of([](Inputs& mine) { mine.job.train.steps = 7; }),
              HasSubstr("rank 0 and rank 1 read different jobs"));
  EXPECT_THAT(of([](Inputs& mine) { mine.data = digest("other"); }),
              HasSubstr("rank 0 and rank 1 read different data"));
  EXPECT_THAT(of([](Inputs& mine) { mine.model.classes = 4; }),
              HasSubstr("the chains of rank 0 and rank 1 differ in their name, or in the sizes"));
  EXPECT_THAT(
      of([](Inputs& mine) { mine.model.layers.pop_back(); }),
      HasSubstr("the chains of rank 0 and rank 1 differ in their number of layers, 2 and 1"));
  EXPECT_THAT(of([](Inputs& mine) { mine.model.layers[1].sketch = "Linear 8 x 3, no bias"; }),
              HasSubstr("the chains of rank 0 and rank 1 differ in layer 2 (last)"));
  EXPECT_THAT(of([](Inputs& mine) { mine.model.code = "other"; }),
              HasSubstr("the chains of rank 0 and rank 1 differ in the files or versions"));
  EXPECT_THAT(of([](Inputs& mine) { mine.model.layers[0].given_values = [] { return "other"; }; }),
              HasSubstr("layer 1 (first) begins with other values on rank 1 than on rank 0"));
}

}  // namespace
}  // namespace trireme::app
