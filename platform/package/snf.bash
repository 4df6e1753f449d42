# SPDX-License-Identifier: Apache-2.0
#
# Completes the commands and flags of snf, as its help lists them.

_snf_words() {
  "$@" --help 2>/dev/null
}

_snf() {
  local word=${COMP_WORDS[COMP_CWORD]} words command=("${COMP_WORDS[0]}") i
  for ((i = 1; i < COMP_CWORD; ++i)); do
    [[ ${COMP_WORDS[i]} == -* ]] && break
    command+=("${COMP_WORDS[i]}")
  done
  if [[ $word == -* ]]; then
    words=$(_snf_words "${command[@]}" | grep -oE -- '--[a-z][a-z0-9_]*' |
            sort -u)
  else
    words=$(_snf_words "${command[@]}" |
            sed -nE 's/^  ([a-z][a-z0-9_]*) +[a-z].*/\1/p')
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
  if ((${#COMPREPLY[@]} == 0)); then
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}

complete -F _snf snf
