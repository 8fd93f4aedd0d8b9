// The transports that the contract is tried on: those whose factories are in the program.
#include <algorithm>
#include <iterator>

#include "contract/contract_fixture.h"

namespace ramcore::transport::contract {
namespace {

std::vector<Subject> subjectsWith(bool Abilities::* ability) {
  std::vector<Subject> able;
  std::copy_if(subjects().begin(), subjects().end(), std::back_inserter(able),
               [ability](const Subject& subject) { return subject.abilities.*ability; });
  return able;
}

std::string nameOf(const ::testing::TestParamInfo<Subject>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(All, TransportContract, ::testing::ValuesIn(subjects()), nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportSecrets, ::testing::ValuesIn(subjectsWith(&Abilities::has_secrets)), nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportClusterNames, ::testing::ValuesIn(subjectsWith(&Abilities::has_cluster_name)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportBounds, ::testing::ValuesIn(subjectsWith(&Abilities::has_sessions_max)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportThreads, ::testing::ValuesIn(subjectsWith(&Abilities::any_thread_release)),
                         nameOf);
INSTANTIATE_TEST_SUITE_P(Able, TransportSleep, ::testing::ValuesIn(subjectsWith(&Abilities::has_sleeper)), nameOf);

}  // namespace
}  // namespace ramcore::transport::contract
