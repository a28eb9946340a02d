// SPDX-License-Identifier: Apache-2.0
#include "trireme/app_runtime/run.h"

int main(int argc, char** argv) {
  return trireme::app::run(argc, argv);
}
