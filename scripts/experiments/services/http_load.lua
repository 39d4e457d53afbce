-- SPDX-License-Identifier: MIT
--
-- What wrk asks the HTTP services of the experiment services for, and what it says in the end.
--
--   HTTP_LOAD_DIR=DIR wrk ... -s http_load.lua URL
--
-- Asks for the paths in DIR/paths (a path and a size on each line), one after the other, over and over.
-- The load fails if one request failed, or if the answers had another size than http_check.js saw
-- (DIR/body-bytes, the mean over the paths) with headers of up to 512 bytes.

local HEADER_BYTES_MAX = 512

local dir = assert(os.getenv("HTTP_LOAD_DIR"), "HTTP_LOAD_DIR is not set")
local requests = {}
local next_request = 0

for line in assert(io.open(dir .. "/paths")):lines() do
    local path = assert(line:match("^(%S+) %d+$"), "paths: " .. line)
    local is_zipped = path:find("^/gzip/") ~= nil
    requests[#requests + 1] = { path = path, headers = is_zipped and { ["Accept-Encoding"] = "gzip" } or nil }
end

-- wrk fills in Host when it starts its threads, so the texts are made after that.
function init()
    for i, it in ipairs(requests) do
        local headers = { ["Host"] = wrk.headers["Host"] }
        for name, value in pairs(it.headers or {}) do
            headers[name] = value
        end
        requests[i] = wrk.format("GET", it.path, headers)
    end
end

function request()
    next_request = next_request % #requests + 1
    return requests[next_request]
end

local function fail(reason)
    print("failed: " .. reason)
    os.exit(1)
end

function done(summary, latency)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
    if summary.requests < #requests then
        fail(("%d requests, fewer than there are paths"):format(summary.requests))
    end
    if failed > 0 then
        fail(("%d of %d requests: %d connect, %d read, %d write, %d status, %d timeout"):format(failed,
            summary.requests, errors.connect, errors.read, errors.write, errors.status, errors.timeout))
    end
    local body_bytes = assert(tonumber(assert(io.open(dir .. "/body-bytes")):read("*l")), "body-bytes")
    local mean_bytes = summary.bytes / summary.requests
    -- The last pass over the paths may be cut short, and wrk counts bytes of answers that were under way.
    local slack_bytes = 40000 * #requests / summary.requests
    if mean_bytes < body_bytes - slack_bytes or mean_bytes > body_bytes + HEADER_BYTES_MAX + slack_bytes then
        fail(("an answer had %.0f bytes in the mean, but its body should have %.0f"):format(mean_bytes, body_bytes))
    end
    print(("requests: %d, %.0f bytes each"):format(summary.requests, mean_bytes))
    print(("requests_per_s: %.2f"):format(summary.requests / summary.duration * 1e6))
    print(("p99: %.0fus"):format(latency:percentile(99)))
end
