#!/usr/bin/env bash
# A real Apache Kafka (KRaft, broker and controller in one process) on this machine, fetched with Maven: one broker, or three
# with replication factor 3. No container. Everything may be run twice.
#
#   kafka.sh start [--brokers N] [--port P] [--fresh] [--fast-groups]
#                                        start, or find running; prints host:port[,host:port…]
#   kafka.sh stop [--port P] [--wipe]    stop all brokers; --wipe deletes their data too
#   kafka.sh status [--port P]           a line per broker; ends with 0 if all run, 3 if none, 4 if some
#   kafka.sh bootstrap [--port P]        print the address, start nothing
#   kafka.sh stop-broker ID [--hard]     end one broker; --hard is kill -9
#   kafka.sh start-broker ID             start it again on its data
#   kafka.sh pause-broker ID             SIGSTOP: a broker that hangs
#   kafka.sh resume-broker ID            SIGCONT
#   kafka.sh run CLASS [ARG…]            run one of Kafka's own tools, such as
#                                        run org.apache.kafka.tools.TopicCommand --bootstrap-server HOST:PORT --list
#   kafka.sh fetch                       download only; prints the folder of the jars
#
# --fast-groups lets groups and transactions notice silent members within seconds, and the controller a broker that was killed: for
# tests of failures. It counts for brokers that this call starts.
#
# Broker i of N listens on 127.0.0.1, port P+i-1; its controller on P+100+i-1. Take P below 32000: above 32768 the system hands
# out ports to outgoing connections.
#
# Environment; options win:
#   KAFKA_PORT       first port                                 21092
#   KAFKA_BROKERS    number of brokers, 1 or 3 and more         1, or what was started before
#   KAFKA_CACHE      downloads, data and logs                   ~/.cache/thalweg/kafka
#   KAFKA_VERSION    version of Apache Kafka                    4.4.0
#   KAFKA_JAVA       the java program                           the newest that is found, 17 or newer
#   KAFKA_HEAP       -Xmx of each broker                        512m
#   KAFKA_EXTRA      more broker settings, a line each          none
#   KAFKA_TIMEOUT    seconds to wait for the brokers            120
set -euo pipefail

VERSION=${KAFKA_VERSION:-4.4.0}
CACHE=${KAFKA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/thalweg/kafka}
PORT=${KAFKA_PORT:-21092}
BROKERS=${KAFKA_BROKERS:-}
TIMEOUT=${KAFKA_TIMEOUT:-120}
LIBS=$CACHE/libs-$VERSION
LOG4J=2.25.5
FRESH='' WIPE='' HARD='' FAST='' ID=''

say() { echo "kafka: $*" >&2; }
die() { say "$*"; exit 1; }
usage() { awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0" >&2; exit 2; }

java_major() { "$1" -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p'; }

find_java() {
  local candidate major best=0
  JAVA=''
  for candidate in ${KAFKA_JAVA:-"${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java || true)" /usr/lib/jvm/*/bin/java}; do
    [ -x "$candidate" ] || continue
    major=$(java_major "$candidate")
    if [ "${major:-0}" -gt "$best" ]; then JAVA=$candidate best=$major; fi
  done
  JAVA_MAJOR=$best
  [ "$best" -ge 17 ] || die "no java 17 or newer was found: install a JRE (Debian: default-jre-headless), or set KAFKA_JAVA"
}

fetch() {
  mkdir -p "$CACHE"
  exec 8>"$CACHE/lock-fetch"; flock 8
  if [ ! -f "$LIBS/.complete" ]; then
    command -v mvn >/dev/null || die "mvn is needed to fetch Apache Kafka: install Maven (Debian: maven)"
    say "fetching Apache Kafka $VERSION"
    local work; work=$(mktemp -d "$CACHE/fetch.XXXXXX")
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>thalweg.tests</groupId><artifactId>broker</artifactId><version>1</version>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$VERSION</version></dependency>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka-tools</artifactId><version>$VERSION</version></dependency>
    <dependency><groupId>org.apache.logging.log4j</groupId><artifactId>log4j-slf4j-impl</artifactId><version>$LOG4J</version></dependency>
  </dependencies>
</project>
POM
    (cd "$work" && mvn -q -B dependency:copy-dependencies -DoutputDirectory="$work/libs" -DincludeScope=runtime) >"$CACHE/fetch.log" 2>&1 ||
      { rm -rf "$work"; grep -m 3 ERROR "$CACHE/fetch.log" >&2; die "the download failed, see $CACHE/fetch.log"; }
    touch "$work/libs/.complete"
    rm -rf "$LIBS"; mv "$work/libs" "$LIBS"; rm -rf "$work"
  fi
  [ -f "$CACHE/log4j2.properties" ] || cat >"$CACHE/log4j2.properties" <<'L4J'
rootLogger.level = warn
rootLogger.appenderRef.c.ref = c
appender.c.type = Console
appender.c.name = c
appender.c.target = SYSTEM_ERR
appender.c.layout.type = PatternLayout
appender.c.layout.pattern = [%d] %p %m (%c)%n
logger.started.name = kafka.server.KafkaRaftServer
logger.started.level = info
L4J
  exec 8>&-
}

# Kafka's classes with little start-up cost: for short commands.
tool() { "$JAVA" -Xmx256m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile="$CACHE/log4j2.properties" -cp "$LIBS/*" "$@"; }

port_of() { echo $((PORT + $1 - 1)); }
addresses() { # addresses SHIFT
  local i all=''
  for i in $(seq 1 "$BROKERS"); do all+=${all:+,}127.0.0.1:$(($(port_of "$i") + $1)); done
  echo "$all"
}
uuid() { head -c 16 /dev/urandom | base64 | tr '+/' 'Ab' | tr -d '=' | sed 's/^-/a/'; } # 22 characters, as Kafka has them

pid_of() { # prints the pid of broker $1 if that process lives and is ours
  local pid; pid=$(cat "$RUN/$1/pid" 2>/dev/null) || return 1
  [ -n "$pid" ] && [ -r "/proc/$pid/cmdline" ] || return 1
  tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -qF -- "$RUN/$1/server.properties" || return 1
  echo "$pid"
}
has_started() { grep -q 'Kafka Server started' "$RUN/$1/log" 2>/dev/null; }

await_free_port() {
  local _
  for _ in $(seq 1 25); do
    (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null || return 0
    sleep 0.2
  done
  die "port $1 is used by something else: choose others with --port"
}

fast_groups() {
  local kind
  for kind in streams consumer; do
    printf "group.$kind.%s\n" min.session.timeout.ms=1000 session.timeout.ms=3000 min.heartbeat.interval.ms=100 heartbeat.interval.ms=300
  done
  printf '%s\n' group.streams.initial.rebalance.delay.ms=0 group.streams.assignment.interval.ms=0 group.min.session.timeout.ms=1000 \
    transaction.abort.timed.out.transaction.cleanup.interval.ms=500 broker.session.timeout.ms=3000 broker.heartbeat.interval.ms=500
}

properties() { # the settings of broker $1
  local port rf=1 isr=1 at=127.0.0.1
  port=$(port_of "$1")
  if [ "$BROKERS" -ge 3 ]; then rf=3 isr=2; fi
  cat <<PROPS
process.roles=broker,controller
node.id=$1
controller.quorum.bootstrap.servers=$(addresses 100)
controller.listener.names=CONTROLLER
inter.broker.listener.name=PLAINTEXT
listeners=PLAINTEXT://$at:$port,CONTROLLER://$at:$((port + 100))
advertised.listeners=PLAINTEXT://$at:$port,CONTROLLER://$at:$((port + 100))
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs=$RUN/$1/data
num.partitions=4
# Tests write records of long ago: none is deleted for its age.
log.retention.ms=-1
default.replication.factor=$rf
min.insync.replicas=$isr
auto.create.topics.enable=false
group.initial.rebalance.delay.ms=0
num.network.threads=2
num.io.threads=4
PROPS
  printf '%s.num.partitions=4\n' offsets.topic transaction.state.log share.coordinator.state.topic
  printf '%s.replication.factor=%s\n' offsets.topic "$rf" transaction.state.log "$rf" share.coordinator.state.topic "$rf"
  printf '%s.min.isr=%s\n' transaction.state.log "$isr" share.coordinator.state.topic "$isr"
  if [ -n "$FAST" ]; then fast_groups; fi
  echo "${KAFKA_EXTRA:-}"
}

configure() { # writes all settings, formats what is new
  local i initial='' how=(--standalone)
  [ -f "$RUN/cluster.id" ] || uuid >"$RUN/cluster.id"
  for i in $(seq 1 "$BROKERS"); do
    mkdir -p "$RUN/$i"
    [ -f "$RUN/$i/directory.id" ] || uuid >"$RUN/$i/directory.id"
    initial+=${initial:+,}$i@127.0.0.1:$(($(port_of "$i") + 100)):$(cat "$RUN/$i/directory.id")
    properties "$i" >"$RUN/$i/server.properties"
  done
  if [ "$BROKERS" -gt 1 ]; then how=(--initial-controllers "$initial"); fi
  for i in $(seq 1 "$BROKERS"); do
    [ -f "$RUN/$i/data/meta.properties" ] ||
      tool kafka.tools.StorageTool format -t "$(cat "$RUN/cluster.id")" "${how[@]}" -c "$RUN/$i/server.properties" >"$RUN/$i/format.log" 2>&1 ||
      { tail -5 "$RUN/$i/format.log" >&2; die "broker $i could not be formatted"; }
  done
}

launch() { # launch ID
  local shift_by options=(-Xms64m -Xmx"${KAFKA_HEAP:-512m}" -Djava.awt.headless=true)
  for shift_by in 0 100; do await_free_port $(($(port_of "$1") + shift_by)); done
  # A class-data archive, written when broker 1 first stops cleanly, makes later starts faster.
  local archive=$CACHE/kafka-$VERSION-jdk$JAVA_MAJOR.jsa
  if [ -f "$archive" ]; then options+=(-XX:SharedArchiveFile="$archive" -Xshare:auto)
  elif [ "$1" = 1 ]; then options+=(-XX:ArchiveClassesAtExit="$RUN/1/new.jsa"); fi
  : >"$RUN/$1/log"
  (cd "$RUN/$1" && exec setsid nohup "$JAVA" "${options[@]}" -Xlog:cds=off -Xlog:cds+dynamic=off \
    -Dlog4j2.configurationFile="$CACHE/log4j2.properties" -cp "$LIBS/*" kafka.Kafka "$RUN/$1/server.properties" \
    >>"$RUN/$1/log" 2>&1 </dev/null 8>&- 9>&- & echo $! >"$RUN/$1/pid")
}

await() { # await ID…
  local i waited=0
  for i in "$@"; do
    until has_started "$i"; do
      pid_of "$i" >/dev/null || { sleep 0.5; pid_of "$i" >/dev/null; } ||
        { grep -E 'ERROR|Exception' "$RUN/$i/log" | tail -5 | cut -c1-300 >&2; die "broker $i has ended, see $RUN/$i/log"; }
      waited=$((waited + 1))
      [ "$waited" -lt $((TIMEOUT * 5)) ] || die "broker $i is not ready after $TIMEOUT s, see $RUN/$i/log"
      sleep 0.2
    done
  done
}

end() { # end ID: asks it to, or kills it
  local pid; pid=$(pid_of "$1") || return 0
  kill -CONT "$pid" 2>/dev/null || true
  if [ -n "$HARD$WIPE" ]; then kill -9 "$pid" 2>/dev/null || true; else kill "$pid" 2>/dev/null || true; fi
}

await_end() {
  local _ pid
  for _ in $(seq 1 150); do
    pid_of "$1" >/dev/null || { rm -f "$RUN/$1/pid"; return 0; }
    sleep 0.2
  done
  pid=$(pid_of "$1") && kill -9 "$pid"
  rm -f "$RUN/$1/pid" "$RUN/$1/new.jsa"
}

end_all() { # end_all COUNT
  local i
  for i in $(seq 1 "$1"); do end "$i"; done
  for i in $(seq 1 "$1"); do await_end "$i"; done
}

lock() { mkdir -p "$CACHE"; exec 9>"$CACHE/lock-$PORT"; flock -w $((TIMEOUT * 2)) 9 || die "another kafka.sh is at work on port $PORT"; }

start() {
  local i known down=()
  lock; find_java; fetch
  known=$(cat "$RUN/brokers" 2>/dev/null || echo "$BROKERS")
  if [ "$known" != "$BROKERS" ]; then
    for i in $(seq 1 "$known"); do if pid_of "$i" >/dev/null; then die "a cluster of $known broker(s) runs on port $PORT: stop it first"; fi; done
    FRESH=1
  fi
  if [ -n "$FRESH" ]; then WIPE=1; end_all "$known"; WIPE=''; rm -rf "$RUN"; fi
  mkdir -p "$RUN"; echo "$BROKERS" >"$RUN/brokers"
  for i in $(seq 1 "$BROKERS"); do pid_of "$i" >/dev/null || down+=("$i"); done
  if [ ${#down[@]} -gt 0 ]; then
    configure
    for i in "${down[@]}"; do launch "$i"; done
  fi
  await $(seq 1 "$BROKERS")
  say "Apache Kafka $VERSION is ready: $BROKERS broker(s), Java $JAVA_MAJOR, logs in $RUN/*/log"
  addresses 0
}

stop() {
  lock
  end_all "$BROKERS"
  if [ -z "$WIPE" ] && [ -f "$RUN/1/new.jsa" ]; then find_java; mv -f "$RUN/1/new.jsa" "$CACHE/kafka-$VERSION-jdk$JAVA_MAJOR.jsa"; fi
  rm -f "$RUN/1/new.jsa"
  if [ -n "$WIPE" ]; then rm -rf "$RUN"; fi
  say "stopped"
}

status() {
  local i pid up=0
  for i in $(seq 1 "$BROKERS"); do
    if ! pid=$(pid_of "$i"); then echo "broker $i 127.0.0.1:$(port_of "$i") stopped"
    elif has_started "$i"; then echo "broker $i 127.0.0.1:$(port_of "$i") running (pid $pid)"; up=$((up + 1))
    else echo "broker $i 127.0.0.1:$(port_of "$i") starting (pid $pid)"; fi
  done
  if [ "$up" = "$BROKERS" ]; then return 0; elif [ "$up" = 0 ]; then return 3; else return 4; fi
}

signal() { local pid; pid=$(pid_of "$ID") || die "broker $ID does not run"; kill "-$1" "$pid"; }

command=${1:-}
[ -n "$command" ] || usage
shift
if [ "$command" = run ]; then # what follows the class belongs to the tool
  find_java; fetch; tool "$@"; exit
fi
while [ $# -gt 0 ]; do
  case $1 in
    --brokers) BROKERS=${2:?}; shift ;;
    --port) PORT=${2:?}; shift ;;
    --fresh) FRESH=1 ;;
    --fast-groups) FAST=1 ;;
    --wipe) WIPE=1 ;;
    --hard) HARD=1 ;;
    [0-9]*) ID=$1 ;;
    *) usage ;;
  esac
  shift
done
[[ $PORT =~ ^[0-9]+$ && ${BROKERS:-1} =~ ^[1-9][0-9]*$ ]] || usage
RUN=$CACHE/cluster-$PORT
if [ "$command" != start ] || [ -z "$BROKERS" ]; then BROKERS=$(cat "$RUN/brokers" 2>/dev/null || echo "${BROKERS:-1}"); fi
case $command in
  *-broker) [ -f "$RUN/${ID:-none}/server.properties" ] || die "name a broker by its number, of the cluster on port $PORT" ;;
esac
case $command in
  start) start ;;
  stop) stop ;;
  status) status ;;
  bootstrap) addresses 0 ;;
  stop-broker) lock; end "$ID"; await_end "$ID" ;;
  start-broker) lock; find_java; fetch; pid_of "$ID" >/dev/null || launch "$ID"; await "$ID" ;;
  pause-broker) signal STOP ;;
  resume-broker) signal CONT ;;
  fetch) fetch; echo "$LIBS" ;;
  *) usage ;;
esac
