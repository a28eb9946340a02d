// Optional costs of a layer in a chain file: early-stop recomputation and split backwards.
// SPDX-License-Identifier: Apache-2.0
#include "chain/reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace trireme::chain {
namespace {

TEST(ReadChain, ReadsWhatARetapeCosts) {
  const std::string layer =
      "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, tape_bytes: 9,\n"
      "     tape_transient_bytes: 5, backward_transient_bytes: 6, retape_s: 1.5";
  const Chain chain = read(kHead + layer +
                           ", retape_bytes: 7, retape_transient_bytes: 1,\n"
                           "     retape_backward_transient_bytes: 8}\n");

  EXPECT_EQ(chain.layer(1).retape, (Retape{.time = Seconds(1.5),
                                           .tape = Bytes(7),
                                           .tape_transient = Bytes(1),
                                           .backward_transient = Bytes(8)}));
  EXPECT_EQ(read_chain(io::parse(to_yaml(chain), "again")), chain);
  EXPECT_EQ(read(kHead + layer + "}\n").layer(1).retape, (Retape{.time = Seconds(1.5),
                                                                 .tape = Bytes(9),
                                                                 .tape_transient = Bytes(5),
                                                                 .backward_transient = Bytes(6)}))
      << "by default all that a whole tape takes";
}

TEST(ReadChain, RefusesARetapeThatIsMoreThanAForward) {
  const std::string costs =
      "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, tape_bytes: 9";
  const std::vector<std::pair<std::string, std::string>> table{
      {costs + ", retape_s: 3}\n",
       "layer 1 (a).retape_s is 3, must be at most forward_s, 2: it is a part of a forward"},
      {costs + ", retape_s: 1, retape_bytes: 10}\n",
       "layer 1 (a).retape_bytes is 10, must be at most tape_bytes, 9"},
      {costs +
           ", tape_transient_bytes: 2, retape_s: 1, retape_bytes: 7, retape_transient_bytes: 5}\n",
       "layer 1 (a).retape_transient_bytes is 5, must be at most tape_transient_bytes + tape_bytes "
       "- "
       "retape_bytes, 4"},
      {costs + ", backward_transient_bytes: 2, retape_s: 1, retape_backward_transient_bytes: 3}\n",
       "layer 1 (a).retape_backward_transient_bytes is 3, must be at most backward_transient_bytes "
       "+ "
       "tape_bytes - retape_bytes, 2"},
      {costs + ", retape_bytes: 8}\n", "layer 1 (a).retape_bytes needs retape_s, too"}};
  for (const auto& [text, message] : table)
    EXPECT_THAT(refusal(kHead + text), testing::HasSubstr(message));
}

TEST(ReadChain, ReadsWhatABackwardInTwoPartsCosts) {
  const std::string layer =
      "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, tape_bytes: 9,\n"
      "     backward_transient_bytes: 6, gradient_bytes: 4, backward_weights_s: 0.5";
  const Chain chain = read(kHead + layer +
                           ", pending_bytes: 7,\n     backward_input_transient_bytes: 8,"
                           " backward_weights_transient_bytes: 1}\n");
  const SplitBackward split{.weights = Seconds(0.5),
                            .pending = Bytes(7),
                            .input_transient = Bytes(8),
                            .weights_transient = Bytes(1)};
  EXPECT_EQ(chain.layer(1).split, split);
  EXPECT_EQ(chain.layer(1).in_parts(), split);
  EXPECT_EQ(read_chain(io::parse(to_yaml(chain), "again")), chain);
  EXPECT_EQ(read(kHead + layer + "}\n").layer(1).split,
            (SplitBackward{.weights = Seconds(0.5),
                           .pending = Bytes(9 + 3),
                           .input_transient = Bytes(6 + 9 + 3),
                           .weights_transient = Bytes(4)}))
      << "by default as much as it can be";
}

TEST(ReadChain, TakesABackwardWithoutASecondPartForWhole) {
  const Chain chain =
      read(kHead + "  - {name: a, forward_s: 1, backward_s: 2, output_bytes: 3, tape_bytes: 4}\n");
  EXPECT_EQ(chain.layer(1).split, std::nullopt);
  EXPECT_EQ(chain.layer(1).in_parts(),
            (SplitBackward{.weights = Seconds(0),
                           .pending = {},
                           .input_transient = chain.layer(1).backward_transient,
                           .weights_transient = {}}));
}

TEST(ReadChain, RefusesASecondPartThatIsMoreThanABackward) {
  const std::string costs =
      "  - {name: a, forward_s: 2, backward_s: 3, output_bytes: 3, tape_bytes: 9";
  EXPECT_THAT(refusal(kHead + costs + ", backward_weights_s: 4}\n"),
              testing::HasSubstr("layer 1 (a).backward_weights_s is 4, must be at most "
                                 "backward_s, 3: it is a part of a backward"));
  EXPECT_THAT(refusal(kHead + costs + ", pending_bytes: 4}\n"),
              testing::HasSubstr("layer 1 (a).pending_bytes needs backward_weights_s, too"));
  EXPECT_THAT(refusal(kHead + costs + ", backward_weights_s: 1, pending_bytes: 4096PiB}\n"),
              testing::HasSubstr("brings the sum of all sizes to more than 4 EiB"));
}

TEST(ReadChain, LooksAtItsSumsBeforeARetapesBounds) {
  EXPECT_THAT(refusal(kHead + "  - {name: a, forward_s: 2, backward_s: 2, output_bytes: 3, "
                              "tape_bytes: 4096PiB, tape_transient_bytes: 4096PiB, retape_s: 1, "
                              "retape_bytes: 0}\n"),
              testing::HasSubstr("brings the sum of all sizes to more than 4 EiB"));
}

}  // namespace
}  // namespace trireme::chain
