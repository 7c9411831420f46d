// One more thread that goes through the same short steps as its caller, each with a share of the work: what one finds
// the other needs at once, so they trade messages and look for the next one without sleeping.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "parallel/parallel.hpp"

namespace mercer {

class Companion {
  public:
    static constexpr std::size_t kMessageBytes = 56;  // and its number: what processors exchange at a time
    using Work = void (*)(void* context);

    // It may not come, or come later; where companions have been slow lately it is not asked to. What is to be done it
    // hears by `first_told`.
    Companion(bool is_wanted, Work work, void* context);
    ~Companion();
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;

    // The caller's. Before each step, from 0 of them on: whether one is here that is to be told now where the steps
    // are. Where a trial with it takes longer than the steps before it, it leaves with the next message.
    bool joins(int64_t n_steps);
    void tell(const void* message, std::size_t size);
    // From then on: a message for one of its own. Who is waited for too long leaves with the next one, too; its answer
    // to that is its last.
    const void* trade(const void* message, std::size_t size);
    bool is_here() const;

    // The companion's: the first that it is told, and what it trades for. Null: there is nothing more to do.
    const void* first_told();
    const void* trade_back(const void* message, std::size_t size);

  private:
    // What one processor writes and the other one reads.
    struct alignas(64) Line {
        std::atomic<uint64_t> number{0};
        unsigned char content[kMessageBytes];
    };

    static void serve(void* context, int64_t);
    static void write(Line* lines, uint64_t number, uint64_t mark, const void* message, std::size_t size);
    const void* told();
    void dismiss();

    const Work work_;
    void* const context_;
    uint64_t n_told_ = 0, n_heard_ = 0;  // the caller's count of messages, and the companion's
    bool leaves_ = false;                // with the next message
    int64_t n_alone_ = 0;                // steps without it
    std::chrono::steady_clock::time_point began_, joined_;
    // Two each, in turns: who writes the next one has the other's answer to the last.
    Line told_[2], answered_[2];
    alignas(64) std::atomic<bool> is_here_{false};
    std::optional<Aside> aside_;
};

}  // namespace mercer
