-- SPDX-License-Identifier: MIT
--
-- What wrk asks the server of the experiment proxy for, and what it says in the end.
--
-- A visitor after the other asks for its page; each has a cookie of its own, of 1100 to 3300 bytes, and the
-- sequence is the same in every run. Every 50th request (2 %) is one that the origin takes 5 to 6 s for. The
-- load fails if a single request failed, or if no slow one was among them.

local SESSIONS = 3000 -- as in server.js
local COOKIE_BYTES_MIN, COOKIE_BYTES_MAX = 1100, 3300
local SLOW_EVERY = 50
local COPRIME = 1237 -- so that a session's requests are slow now and then, and not always the same ones

local content, slow = {}, {}
local count = 0

-- wrk fills in Host when it starts its threads, so the texts are made after that.
function init()
    math.randomseed(67235)
    for n = 0, SESSIONS - 1 do
        local bytes = math.random(COOKIE_BYTES_MIN, COOKIE_BYTES_MAX)
        local headers = { ["Host"] = wrk.headers["Host"], ["Cookie"] = "session=" .. ("c"):rep(bytes - 8) }
        content[n] = wrk.format("GET", "/content/" .. n, headers)
        slow[n] = wrk.format("GET", "/slow/" .. n, headers)
    end
end

function request()
    local n = (count * COPRIME + math.floor(count / SESSIONS)) % SESSIONS
    count = count + 1
    return count % SLOW_EVERY == 0 and slow[n] or content[n]
end

local function fail(reason)
    print("failed: " .. reason)
    os.exit(1)
end

function done(summary)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    if failed > 0 then
        fail(("%d of %d requests: %d connect, %d read, %d write, %d status, %d timeout"):format(failed, summary.requests,
            errors.connect, errors.read, errors.write, errors.status, errors.timeout))
    end
    if summary.requests == 0 then
        fail("no request was answered")
    end
    print(("requests: %d"):format(summary.requests))
    print(("requests_per_s: %.2f"):format(summary.requests / summary.duration * 1e6))
    -- No latencies: wrk corrects them for requests that a slow one held up, and the slow ones are meant to be.
end
