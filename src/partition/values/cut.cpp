// SPDX-License-Identifier: Apache-2.0
#include "cut.h"

namespace trireme::partition {

std::optional<Cut> fixed_cut(const Question& question) {
  if (!question.cut) return std::nullopt;
  Cut cut = *question.cut;
  cut.push_back(question.chain.length());
  return cut;
}

Cut equal_cut(int layers, int stages) {
  Cut cut;
  int last = 0;
  for (int k = 0; k < stages; ++k) {
    last += layers / stages + (k < layers % stages ? 1 : 0);
    cut.push_back(last);
  }
  return cut;
}

}  // namespace trireme::partition
