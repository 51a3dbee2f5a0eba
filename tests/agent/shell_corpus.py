"""Command lines with what must be thought of them. Each line stands for a way in which people or models write one."""

from __future__ import annotations

SAFE = r"""
ls
ls -la
ls -la src/agent
ls	-l
ls ""
pwd
cat README.md
cat 'a file' "another file"
head -n 20 README.md
tail -5 log.txt
wc -l src/main.py
nl -ba main.py
stat README.md
du -sh .
df -h
realpath ../x
basename /a/b
echo hello world
echo 'rm -rf /'
echo "a; b && c | d"
echo 5 \> 3
printf '%s\n' x
true
test -f x
seq 1 10
grep -rn TODO src
grep -E 'a|b' file
grep 'rm -rf' notes.txt
rg --files
rg -n pattern src
find . -name '*.py'
find . -type f -size +1M
fd -e py
tree -L 2
sort names.txt
sort -u -k2,2 names.txt
uniq names.txt
uniq -c names.txt
cut -d: -f1 /etc/passwd
diff a b
sha256sum file
file a.out
jq .name package.json
date
date +%Y-%m-%d
hostname
hostname -I
uname -a
whoami
id
ps aux
which python3
git status
git status --short
git log
git log --oneline -20
git --no-pager log -3
git show HEAD~1
git diff
git diff --stat HEAD
git blame main.py
git branch
git branch -a
git branch --show-current
git tag
git remote -v
git stash list
git ls-files
git rev-parse HEAD
git grep TODO
git --version
docker ps -a
docker images
docker logs web
kubectl get pods
kubectl get pods -n prod -o wide
kubectl describe pod web
npm ls
pip list
python --version
python3 -V
node -v
go version
\ls
l's' -la
"""

DESTRUCTIVE = r"""
rm x
rm -rf /
rm -r -f build
/bin/rm x
\rm x
r''m x
'rm' x
rm\
 -rf x
rmdir x
shred x
truncate -s 0 x
dd if=/dev/zero of=/dev/sda
mkfs.ext4 /dev/sda1
mv a b
chmod -R 777 .
chown root x
sudo ls
sudo -u root rm x
/usr/bin/sudo ls
doas rm x
kill -9 1
killall node
shutdown now
systemctl stop x
crontab -r
find . -delete
find . -name x -exec rm {} \;
find . -type f -exec grep x {} +
fd -e tmp -x rm
fd -x ls
xargs rm
xargs -0 -n1 rm -f
env rm x
env -i PATH=/bin rm x
nohup rm x
timeout 5 rm x
nice -n 5 rm x
command rm x
exec rm x
time rm x
bash -c 'rm -rf x'
sh -c "cd /tmp && rm -rf x"
bash -lc "true; rm x"
eval rm x
eval "rm x"
. ./script.sh
source script.sh
ls; rm x
ls && rm x
ls || rm x
ls | rm
ls & rm x
(rm x)
{ rm x; }
! rm x
if true; then rm x; fi
for i in 1 2; do rm $i; done
while true; do rm x; done
case x in x) rm y;; esac
f() { rm x; }; f
echo $(rm x)
echo `rm x`
echo "$(rm x)"
echo "${a:-$(rm x)}"
diff <(rm x) y
A=1 rm x
A=$(rm x)
export A=$(rm x)
rm x > /dev/null
rm x 2>&1
cat <<EOF | sh
rm x
EOF
bash <<EOF
rm x
EOF
bash <<< 'rm x'
echo 'rm x' | sh
ls 'unclosed; rm x
git push --force
git push -f origin main
git push origin +main
git push origin :main
git reset --hard
git clean -fdx
git checkout .
git branch -D main
git tag -d v1
git stash drop
docker rm x
docker system prune
docker compose down
kubectl delete pod x
terraform destroy
apt-get remove vim
pip uninstall x
npm publish
sed -i s/a/b/ x
perl -i -pe s/a/b/ x
rsync --delete a b
tee x
cp a b
cat a | tee b
dropdb prod
ls
rm x
"""

UNKNOWN = r"""
make
make test
python script.py
python -c 'print(1)'
python -m pytest
npm install
npm run build
npm test
cargo build
go test ./...
git add .
git commit -m x
git push
git pull
git fetch
git branch new
git tag v1
git remote add a b
git config --list
git -c core.pager=x log
git -C /elsewhere status
git log --output=x
git log --outp=x
git diff --ext-diff
git grep -O x
curl https://example.org
wget x
ssh host ls
docker run x
docker exec web ls
kubectl apply -f x
kubectl get secrets
kubectl get pods,secrets
kubectl get pods --kubeconfig=x
env
printenv
awk 1 x
sed -n 1p x
vi x
lsof
lsblk2
catt x
./ls
/bin/ls
/tmp/ls -la
~/bin/ls
ls *.py
ls ~
ls $HOME
ls {a,b}
cat file?
cat [ab]
ls -la | head
ls > files
ls >> files
ls 2>/dev/null
cat < x
ls && pwd
ls; pwd
ls &
cat <<EOF
x
EOF
A=1 ls
IFS=x ls
PATH=/tmp:$PATH ls
! ls
time ls
(ls)
{ ls; }
ls # a comment
# only a comment
echo $(pwd)
echo `pwd`
echo "$HOME"
echo ${x}
echo $((1+1))
cat <(ls)
ls $'\x2d\x6c'
$'ls' -la
$cmd x
"$cmd" x
$(echo ls)
cd /tmp
export A=1
[ -f x ]
[[ -f x ]]
uniq a b
sort -o x y
sort -uo x y
sort --out=x y
tree -o x
rg --pre cat x
date 01010000
date -s x
hostname new
ps eww
uname -a; ls
ls "unclosed
ls 'unclosed
ls )
( ls
if ls
then ls
python -v
yes
"""

DISGUISED = (
    ("ls\u00a0-la", "unknown"),
    ("ls\u3000-la", "unknown"),
    ("ls\u2028rm x", "unknown"),
    ("ls \u200brm", "unknown"),
    ("\u202els", "unknown"),
    ("ls\rrm x", "unknown"),
    ("ls\x00rm x", "unknown"),
    ("ls\x0brm x", "unknown"),
    ("ls\x1b[2K", "unknown"),
    ("ls -la\nrm x", "destructive"),
    ("ls -la\n\n", "safe"),
    ("\n  ls -la", "safe"),
    ("echo 'a\nb'", "unknown"),
    ("l\u0455", "unknown"),
    ("\uff4c\uff53", "unknown"),
    ("", "unknown"),
    ("   ", "unknown"),
    ("''", "unknown"),
    ("\ud800", "unknown"),
    ("ls " + "x" * 20_000, "unknown"),
    ("ls " + "(" * 5_000, "unknown"),
    ("echo " + "$(echo " * 300 + ")" * 300, "unknown"),
)
"""Lines with what cannot be seen, or with more than a line should have."""


def _lines(text: str, label: str) -> list[tuple[str, str]]:
    return [(line, label) for line in _joined(text.strip("\n").split("\n"))]


def _joined(lines: list[str]) -> list[str]:
    """One command each; a here-document and a continued line are put together again."""
    found: list[str] = []
    for line in lines:
        open_document = found and "<<EOF" in found[-1] and not found[-1].endswith("\nEOF")
        if open_document or (found and found[-1].endswith("\\") and not found[-1].endswith("\\;")):
            found[-1] += f"\n{line}"
        else:
            found.append(line)
    return found


CORPUS: list[tuple[str, str]] = [
    *_lines(SAFE, "safe"),
    *_lines(DESTRUCTIVE.replace("\nls\nrm x\n", "\n"), "destructive"),
    *_lines(UNKNOWN, "unknown"),
    *DISGUISED,
]
"""(command line, its label)."""
