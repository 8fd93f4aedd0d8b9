#include "coordinator/move_service.h"

#include "coordinator/request_gate_inline.h"
#include "rpc/control_call.h"

namespace ramcore::coordinator {
namespace {

namespace control = wire::control;
using rpc::Request;
using transport::Role;
using wire::Opcode;

control::MigrationState stateOf(MigrationStep step) {
  switch (step) {
    case MigrationStep::Done:
      return control::MIGRATION_DONE;
    case MigrationStep::Cancelled:
      return control::MIGRATION_CANCELLED;
    case MigrationStep::Failed:
      return control::MIGRATION_FAILED;
    default:
      return control::MIGRATION_RUNNING;
  }
}

void fill(const MigrationManager::Progress& progress, control::MigrationStatusResponse& out) {
  const Migration& migration = progress.migration;
  out.set_state(stateOf(migration.step));
  out.set_objects(migration.objects);
  out.set_bytes(migration.bytes);
  out.set_fraction(migration.step == MigrationStep::Done ? 1 : progress.fraction);
  out.set_reason(migration.reason.empty() ? progress.waits_for : migration.reason);
  out.set_lacks_room(migration.lacks_room);
  if (!migration.isOver()) out.set_step(std::string(textOf(migration.step)));
}

}  // namespace

void MoveService::addTo(rpc::ServiceTable& table) {
  const auto rules = [](std::initializer_list<Role> roles) {
    return rpc::OpcodeRules{.roles = rpc::allow(roles), .any_target = true, .dispatch_only = true};
  };
  using Self = MoveService;
  table.add<&Self::migrationStatus>(Opcode::MigrationStatus, *this, rules({Role::Client, Role::Admin}));
  table.add<&Self::listMigrations>(Opcode::ListMigrations, *this, rules({Role::Admin}));
  table.add<&Self::moveTablet>(Opcode::MoveTablet, *this, rules({Role::Admin}));
  table.add<&Self::splitTable>(Opcode::SplitTable, *this, rules({Role::Admin}));
  table.add<&Self::setRate>(Opcode::SetMigrationRate, *this, rules({Role::Admin}));
  table.add<&Self::cancelMigration>(Opcode::CancelMigration, *this, rules({Role::Admin}));
}

runtime::Task<void> MoveService::moveTablet(Request request) {
  Journal::Running running(services_.journal);
  control::MoveTabletRequest message;
  const Status received = services_.gate.receiveSettled(request, message);
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  const MigrationManager::Begun begun = co_await services_.migrations.begin(
      TabletId(message.tablet()), ServerId(message.destination()), message.rate_max());
  const Status started = services_.gate.ofChange(begun.status);
  if (started != Status::Ok) co_return refuse(std::move(request), started);
  control::MoveTabletResponse response;
  response.set_migration(begun.id.value);
  rpc::replyControl(std::move(request), response);
}

runtime::Task<void> MoveService::splitTable(Request request) {
  Journal::Running running(services_.journal);
  control::SplitTableRequest message;
  const Status received = services_.gate.receiveSettled(request, message);
  if (received != Status::Ok) co_return refuse(std::move(request), received);
  const SplitManager::Halves halves =
      co_await services_.splits.split(TableId(message.table()), message.at_hash(), waitDeadlineNs());
  const Status split = services_.gate.ofChange(halves.status);
  if (split != Status::Ok) co_return refuse(std::move(request), split);
  control::SplitTableResponse response;
  response.set_lower_tablet(halves.lower.value);
  response.set_upper_tablet(halves.upper.value);
  rpc::replyControl(std::move(request), response);
}

void MoveService::migrationStatus(Request request) {
  control::MigrationStatusRequest message;
  const Status received = services_.gate.receive(request, message);
  if (received != Status::Ok) return refuse(std::move(request), received);
  const MigrationManager::Progress* progress = services_.migrations.find(MigrationId(message.migration()));
  if (progress == nullptr) return refuse(std::move(request), Status::NotFound);
  control::MigrationStatusResponse response;
  fill(*progress, response);
  rpc::replyControl(std::move(request), response);
}

void MoveService::listMigrations(Request request) {
  control::Empty message;
  const Status received = services_.gate.receive(request, message);
  if (received != Status::Ok) return refuse(std::move(request), received);
  const int64_t now_ns = services_.journal.nowNs();
  control::ListMigrationsResponse response;
  for (const auto& [id, move] : services_.migrations.all()) {
    const Migration& migration = move.migration;
    control::MigrationRecord& record = *response.add_migrations();
    record.set_migration(id.value);
    record.set_tablet(migration.tablet.value);
    record.set_table(migration.table.value);
    record.set_source(migration.source.value);
    record.set_destination(migration.destination.value);
    record.set_age_ns(move.begun_ns < 0 ? -1 : now_ns - move.begun_ns);
    record.set_over_for_ns(move.over_ns < 0 ? -1 : now_ns - move.over_ns);
    record.set_rate_max(migration.rate_max);
    fill(move, *record.mutable_status());
  }
  rpc::replyControl(std::move(request), response);
}

runtime::Task<void> MoveService::setRate(Request request) {
  Journal::Running running(services_.journal);
  control::SetMigrationRateRequest message;
  Status status = services_.gate.receiveSettled(request, message);
  if (status == Status::Ok) {
    status = services_.gate.ofChange(
        co_await services_.migrations.setRate(MigrationId(message.migration()), message.rate_max()));
  }
  replyStatus(std::move(request), status);
}

runtime::Task<void> MoveService::cancelMigration(Request request) {
  Journal::Running running(services_.journal);
  control::CancelMigrationRequest message;
  Status status = services_.gate.receiveSettled(request, message);
  if (status == Status::Ok) {
    status = services_.gate.ofChange(
        co_await services_.migrations.cancel(MigrationId(message.migration()), waitDeadlineNs()));
  }
  replyStatus(std::move(request), status);
}

}  // namespace ramcore::coordinator
