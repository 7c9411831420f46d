// One more thread for many short pieces of work, each of which begins when the one before is done: it stays, and looks
// for the next piece without sleeping.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>

#include "mercer/parallel.hpp"

namespace mercer {

class Companion {
  public:
    static constexpr std::size_t kMessageBytes = 120;
    // Does what the question asks, and writes the answer: aggregates of kMessageBytes at most.
    using Work = void (*)(void* context, const void* question, void* answer);

    // It may not come, or come later; where companions have been slow lately it is not asked to.
    Companion(bool is_wanted, Work work, void* context);
    ~Companion();
    Companion(const Companion&) = delete;
    Companion& operator=(const Companion&) = delete;

    bool is_here() const;

    // Where the next question is written.
    void* question() { return asked_.content; }
    // Of one that is here.
    void ask();
    // Waits for the answer to what was asked last; who is waited for too long is sent away then.
    const void* answer();

  private:
    // What one processor writes and the other one reads; they exchange 64 bytes at a time.
    struct alignas(64) Message {
        std::atomic<uint32_t> number{0};
        alignas(8) unsigned char content[kMessageBytes];
    };

    static void serve(void* context, int64_t);
    void stay();
    bool has_answered() const;
    bool has_answered_soon() const;
    void dismiss();

    const Work work_;
    void* const context_;
    uint32_t n_asked_ = 0;
    Message asked_, answered_;
    alignas(64) std::atomic<bool> is_here_{false};
    std::optional<Aside> aside_;
};

}  // namespace mercer
